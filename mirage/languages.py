"""What differs by language, in one table; nowhere else does code ask which language it has."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from mirage.errors import UnknownNameError

__all__ = ["LANGUAGES", "Language"]


@dataclass(frozen=True, slots=True)
class Language:
    """One language and everything about it that code has to know.

    Attributes:
        code: ISO 639-1 code, ``sw``.
        name: English name, ``Swahili``.
        native_name: its name in itself, ``Kiswahili``.
        script: Unicode script name, ``Latin``; ``Japanese`` stands for Han, Hiragana and Katakana
            together, as in ISO 15924.
        direction: ``ltr`` or ``rtl``.
        sentence_ends: what parts sentences: ``marks``, which sentencex knows, or ``spaces``.
        tokens: what overlap measures count: ``word``, or ``character`` where the script puts no
            spaces between words.
        bleu_tokenizer: sacrebleu's tokenizer: ``13a`` (splits ASCII punctuation), ``intl``
            (splits Unicode punctuation such as the danda), ``zh`` or ``char``. None of them needs
            a download.
        neighbours: languages outside this table that are easily taken for it, by ISO 639-1 code.
            Malay is none of Indonesian's: short texts do not tell them apart.
        gram_length: characters in the n-grams that compare short phrases: 2 where a character is
            a syllable or a word.
        capitals: what a capital within a sentence is a sign of: a name, or any noun; ``none``
            where the script has no capitals.
        digits: the script's own digits 0 to 9, empty where it uses ASCII digits only.
        articles: words that question answering does not count in an answer.
        endings: whether words take endings, case or particle, where no dictionary has them.
        prefixes: short words that are written as one with the word behind them, as a regular
            expression; where three letters or more are left they are no part of that word.
        inner_stops: what a full stop may follow without ending the sentence, where sentencex does
            not know it, as a regular expression: titles (``Bw.``), ordinals (``17.``).
        terminators: the characters that end a sentence.
        brackets: the pairs that may enclose a citation, each opening then closing.
        reason_headings: words that head the reason section, besides the English ones.
        answer_headings: words that head the answer section, besides the English ones.
        passage_words: words that may stand before a passage's number in a citation, besides the
            English ones.
        conjunctions: words for "and" between the numbers of a citation, besides the English ones.
    """

    code: str
    name: str
    native_name: str
    script: str = "Latin"
    direction: Literal["ltr", "rtl"] = "ltr"
    sentence_ends: Literal["marks", "spaces"] = "marks"
    tokens: Literal["word", "character"] = "word"
    bleu_tokenizer: Literal["13a", "intl", "zh", "char"] = "13a"
    neighbours: tuple[str, ...] = ()
    gram_length: int = 3
    capitals: Literal["names", "nouns", "none"] = "names"
    digits: str = ""
    articles: tuple[str, ...] = ()
    endings: bool = False
    prefixes: str = ""
    inner_stops: str = ""
    terminators: str = ".!?…"
    brackets: tuple[str, ...] = ("[]", "［］", "【】")
    reason_headings: tuple[str, ...] = ()
    answer_headings: tuple[str, ...] = ()
    passage_words: tuple[str, ...] = ()
    conjunctions: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.code)  # every cache by language asks for it

    @classmethod
    def of(cls, code: str | Language) -> Language:
        """The language with this ISO 639-1 code; a :class:`Language` is returned as it is.

        Raises:
            UnknownNameError: no such code; the message names the nearest one, also for a
                language's name (``Kiswahili``) or a longer tag (``en-US``).
        """
        if isinstance(code, Language):
            return code
        try:
            return LANGUAGES[code]
        except (KeyError, TypeError):  # TypeError: something unhashable
            raise _unknown(code) from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


_TABLE = (
    Language(
        code="ar",
        name="Arabic",
        native_name="العربية",
        capitals="none",
        script="Arabic",
        direction="rtl",
        neighbours=("ur",),
        prefixes="[وف]?(?:[بكل]?ال|لل|[بكل])|[وف]",
        inner_stops="د|أ",
        bleu_tokenizer="intl",
        digits="٠١٢٣٤٥٦٧٨٩",
        terminators=".!?…؟۔",
        reason_headings=_words("السبب, سبب, التعليل, التفسير, الأسباب"),
        answer_headings=_words("الإجابة, الاجابة, إجابة, الجواب, جواب"),
        passage_words=_words(
            "السياق, سياق, المقطع, مقطع, الفقرة, فقرة, الوثيقة, وثيقة, المستند, مستند, المصدر, "
            "مصدر, النص, المرجع"
        ),
        conjunctions=_words("و"),
    ),
    Language(
        code="bn",
        name="Bengali",
        native_name="বাংলা",
        endings=True,
        capitals="none",
        script="Bengali",
        inner_stops="ড|ডা|মো",
        bleu_tokenizer="intl",
        digits="০১২৩৪৫৬৭৮৯",
        terminators=".!?…।॥",
        reason_headings=_words("কারণ, যুক্তি"),
        answer_headings=_words("উত্তর, জবাব"),
        passage_words=_words("প্রসঙ্গ, অনুচ্ছেদ, নথি, উৎস, প্যাসেজ, ডকুমেন্ট"),
        conjunctions=_words("এবং, ও"),
    ),
    Language(
        code="de",
        name="German",
        native_name="Deutsch",
        neighbours=("nl", "da"),
        capitals="nouns",
        inner_stops=r"\d{1,2}",
        reason_headings=_words("Begründung, Grund, Gründe"),
        answer_headings=_words("Antwort"),
        passage_words=_words("Kontext, Dokument, Quelle, Abschnitt, Textstelle, Absatz"),
        conjunctions=_words("und"),
    ),
    Language(
        code="en",
        name="English",
        native_name="English",
        articles=("a", "an", "the"),
        neighbours=("nl",),
        reason_headings=_words("Reason, Reasons, Reasoning"),
        answer_headings=_words("Answer, Final Answer"),
        passage_words=_words(
            "Context, Passage, Passages, Document, Documents, Doc, Docs, Source, Sources, "
            "Reference, Ref, Citation, Cite, Paragraph, Snippet, Chunk, Text, ID, DocID"
        ),
        conjunctions=_words("and, &"),
    ),
    Language(
        code="es",
        name="Spanish",
        native_name="español",
        neighbours=("pt", "ca", "it"),
        inner_stops=r"[ad]\. ?C",
        reason_headings=_words("Razón, Razones, Razonamiento, Motivo, Justificación"),
        answer_headings=_words("Respuesta"),
        passage_words=_words("Contexto, Pasaje, Documento, Fuente, Fragmento, Párrafo, Texto"),
        conjunctions=_words("y, e"),
    ),
    Language(
        code="fa",
        name="Persian",
        native_name="فارسی",
        endings=True,
        capitals="none",
        script="Arabic",
        direction="rtl",
        neighbours=("ur",),
        bleu_tokenizer="intl",
        digits="۰۱۲۳۴۵۶۷۸۹",
        terminators=".!?…؟۔",
        reason_headings=_words("دلیل, دلایل, استدلال, علت"),
        answer_headings=_words("پاسخ, جواب"),
        passage_words=_words("متن, سند, منبع, بند, پاراگراف, قطعه, زمینه"),
        conjunctions=_words("و"),
    ),
    Language(
        code="fi",
        name="Finnish",
        native_name="suomi",
        endings=True,
        neighbours=("et",),
        inner_stops=r"\d{1,2}",
        reason_headings=_words("Perustelu, Perustelut, Syy"),
        answer_headings=_words("Vastaus"),
        passage_words=_words("Konteksti, Kappale, Katkelma, Asiakirja, Dokumentti, Lähde, Teksti"),
        conjunctions=_words("ja"),
    ),
    Language(
        code="fr",
        name="French",
        native_name="français",
        neighbours=("it", "ca"),
        inner_stops=r"MM?|Mme|Mlle|J(?=\.-)",
        reason_headings=_words("Raison, Raisons, Raisonnement, Justification"),
        answer_headings=_words("Réponse"),
        passage_words=_words("Contexte, Extrait, Paragraphe, Texte"),
        conjunctions=_words("et"),
    ),
    Language(
        code="hi",
        name="Hindi",
        native_name="हिन्दी",
        capitals="none",
        script="Devanagari",
        neighbours=("mr",),
        inner_stops="डॉ|श्री|प्रो",
        bleu_tokenizer="intl",
        digits="०१२३४५६७८९",
        terminators=".!?…।॥",
        reason_headings=_words("कारण, तर्क"),
        answer_headings=_words("उत्तर, जवाब"),
        passage_words=_words("संदर्भ, सन्दर्भ, प्रसंग, अनुच्छेद, गद्यांश, दस्तावेज़, दस्तावेज, स्रोत"),
        conjunctions=_words("और, एवं, व"),
    ),
    Language(
        code="id",
        name="Indonesian",
        native_name="Bahasa Indonesia",
        neighbours=("tl",),
        reason_headings=_words("Alasan"),
        answer_headings=_words("Jawaban"),
        passage_words=_words("Konteks, Bagian, Kutipan, Dokumen, Sumber, Paragraf, Teks"),
        conjunctions=_words("dan"),
    ),
    Language(
        code="ja",
        name="Japanese",
        native_name="日本語",
        capitals="none",
        script="Japanese",
        tokens="character",
        gram_length=2,
        bleu_tokenizer="char",
        terminators="。！？…．.!?｡",
        brackets=("[]", "［］", "【】", "〔〕"),
        reason_headings=_words("理由, 根拠"),
        answer_headings=_words("回答, 答え, 解答"),
        passage_words=_words(
            "コンテキスト, 文脈, パッセージ, 文書, ドキュメント, 段落, 一節, 資料, 出典"
        ),
        conjunctions=_words("と, および"),
    ),
    Language(
        code="ko",
        name="Korean",
        native_name="한국어",
        endings=True,
        capitals="none",
        script="Hangul",
        # Words carry their particles, so characters come nearer to morphemes than words do.
        gram_length=2,
        bleu_tokenizer="char",
        terminators=".!?…。！？",
        reason_headings=_words("이유, 근거"),
        answer_headings=_words("답변, 답, 정답, 대답"),
        passage_words=_words("컨텍스트, 문맥, 맥락, 지문, 구절, 문서, 단락, 출처, 자료"),
        conjunctions=_words("와, 과, 및"),
    ),
    Language(
        code="ru",
        name="Russian",
        native_name="русский",
        endings=True,
        script="Cyrillic",
        neighbours=("uk", "bg", "be"),
        reason_headings=_words("Причина, Обоснование, Объяснение, Рассуждение"),
        answer_headings=_words("Ответ"),
        passage_words=_words(
            "Контекст, Отрывок, Фрагмент, Пассаж, Документ, Источник, Абзац, Текст"
        ),
        conjunctions=_words("и"),
    ),
    Language(
        code="sw",
        name="Swahili",
        native_name="Kiswahili",
        neighbours=("zu", "sn"),
        inner_stops="Dkt|Bw|Bi",
        reason_headings=_words("Sababu"),
        answer_headings=_words("Jibu"),
        passage_words=_words("Muktadha, Kifungu, Aya, Hati, Chanzo"),
        conjunctions=_words("na"),
    ),
    Language(
        code="te",
        name="Telugu",
        native_name="తెలుగు",
        endings=True,
        capitals="none",
        script="Telugu",
        inner_stops="డా|శ్రీ",
        bleu_tokenizer="intl",
        digits="౦౧౨౩౪౫౬౭౮౯",
        terminators=".!?…।॥",
        reason_headings=_words("కారణం, కారణాలు"),
        answer_headings=_words("సమాధానం, జవాబు"),
        passage_words=_words("సందర్భం, ప్యాసేజ్, పేరా, భాగం, పత్రం, మూలం"),
        conjunctions=_words("మరియు"),
    ),
    Language(
        code="th",
        name="Thai",
        native_name="ไทย",
        capitals="none",
        script="Thai",
        sentence_ends="spaces",
        tokens="character",
        gram_length=2,
        bleu_tokenizer="char",
        digits="๐๑๒๓๔๕๖๗๘๙",
        reason_headings=_words("เหตุผล"),
        answer_headings=_words("คำตอบ"),
        passage_words=_words("บริบท, ข้อความ, ย่อหน้า, เอกสาร, แหล่งที่มา"),
        conjunctions=_words("และ"),
    ),
    Language(
        code="yo",
        name="Yoruba",
        native_name="Yorùbá",
        reason_headings=_words("Ìdí, Idi"),
        answer_headings=_words("Ìdáhùn, Idahun"),
        passage_words=_words("Àyọkà, Ayoka, Ìwé, Iwe, Orísun, Orisun"),
        conjunctions=_words("àti, ati"),
    ),
    Language(
        code="zh",
        name="Chinese",
        native_name="中文",
        capitals="none",
        script="Han",
        tokens="character",
        gram_length=2,
        bleu_tokenizer="zh",
        terminators="。！？…．.!?｡",
        brackets=("[]", "［］", "【】", "〔〕"),
        reason_headings=_words("理由, 原因, 推理"),
        answer_headings=_words("答案, 回答, 解答"),
        passage_words=_words("上下文, 语境, 段落, 文档, 文檔, 文件, 资料, 資料, 来源, 來源, 文献"),
        conjunctions=_words("和, 与, 與, 及"),
    ),
)

LANGUAGES: Mapping[str, Language] = MappingProxyType({entry.code: entry for entry in _TABLE})
"""The 18 languages by ISO 639-1 code, in alphabetical order of code."""


def _unknown(code: object) -> UnknownNameError:
    error = UnknownNameError("language", code, LANGUAGES)
    nearest = _nearest(str(code))
    # Codes that look alike have nothing to do with each other: `it` is not `th`.
    hint = f"did you mean {nearest.code!r}?" if nearest else f"known: {', '.join(LANGUAGES)}"
    error.args = (f"unknown language {code!r}; {hint}",)
    return error


def _nearest(word: str) -> Language | None:
    """The language whose code, English name or native name comes nearest."""
    word = word.strip().casefold()
    tag = word.replace("_", "-").split("-")[0]
    if tag in LANGUAGES:
        return LANGUAGES[tag]
    names = {name.casefold(): entry for entry in _TABLE for name in (entry.name, entry.native_name)}
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return names[near[0]] if near else None
