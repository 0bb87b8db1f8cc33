"""A table of all properties of languages, so that no other code has to check language codes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from mirage.errors import SettingError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Language:
    """A language and its properties, such as its script and its name.

    Attributes:
        code: ISO 639-1 code, such as ``sw``.
        name: English name, such as ``Swahili``.
        native_name: Name in the language itself, such as ``Kiswahili``.
        script: Unicode script name, such as ``Latin``. ``Japanese`` means Han, Hiragana and
            Katakana together, as in ISO 15924.
        direction: Direction of writing: ``ltr`` (left to right) or ``rtl`` (right to left).
        sentence_ends: How sentences are separated: by punctuation ``marks``, which the sentencex
            library recognises, or by ``spaces``.
        tokens: Unit that overlap metrics count: ``word``, or ``character`` if the script has no
            spaces between words.
        bleu_tokenizer: Tokenizer of sacrebleu: ``13a`` (splits ASCII punctuation), ``intl`` (splits
            Unicode punctuation such as the danda), ``zh`` or ``char``. None of them needs a
            download.
        neighbours: ISO 639-1 codes of similar languages outside :data:`LANGUAGES`, which language
            identification might confuse with this one. Indonesian does not list Malay, because
            short texts in the two languages cannot be distinguished.
        gram_length: Length, in characters, of the n-grams that are used to compare short phrases: 2
            if a character is a syllable or a word, otherwise 3.
        capitals: Words that start with a capital letter within a sentence: ``names`` or all
            ``nouns``; ``none`` if the script has no capital letters.
        stemmer: Name of the Snowball stemmer; empty if there is none.
        analyzer: Best analyzer for lexical search, according to
            ``validation/papers/judged_topics.py --analyzers``; see
            :data:`mirage.text.analyzers.Analyzer`.
        spelling_variants: Pairs of letters that writers use interchangeably. In stems, the second
            letter replaces the first. An entry of one letter means that writers may leave out this
            letter.
        digits: Digits 0 to 9 of the script; empty if it uses ASCII digits only.
        articles: Words that question answering metrics ignore in an answer.
        endings: Whether words take case endings or particles that dictionaries do not list.
        prefixes: Regular expression for short words that are written together with the next word. A
            prefix is removed only if at least three letters remain.
        inner_stops: Regular expression for texts with a full stop that does not end a sentence,
            such as titles (``Bw.``) and ordinals (``17.``). It lists only those that sentencex does
            not recognise.
        terminators: Characters that end a sentence.
        brackets: Pairs of brackets that may enclose a citation, each as two characters.
        reason_headings: Headings of the reason section, in addition to the English ones.
        answer_headings: Headings of the answer section, in addition to the English ones.
        passage_words: Words before the number of a passage in a citation, in addition to the
            English ones.
        conjunctions: Words for "and" between the numbers of a citation, in addition to the English
            ones.
        board: Whether the library contains a leaderboard (board) for the language, with its
            queries, phrases and word lists. Other languages are supported only for retrieval,
            prompts, short-answer metrics and the identification of the language of a response.
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
    stemmer: str = ""
    analyzer: Literal["words", "stop", "stems", "trigrams", "bigrams"] = "stop"
    spelling_variants: tuple[str, ...] = ()
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
    board: bool = True

    def __hash__(self) -> int:
        return hash(self.code)  # fast, because every cache with a language as key calls it

    @classmethod
    def of(cls, code: str | Language) -> Language:
        """Return the language with an ISO 639-1 code.

        Args:
            code: ISO 639-1 code. A :class:`Language` is returned unchanged.

        Raises:
            UnknownNameError: If there is no such language. The message suggests the nearest code,
                also for the name of a language (``Kiswahili``) or a longer tag (``en-US``).

        Example:
            >>> Language.of("sw").name
            'Swahili'
        """
        if isinstance(code, Language):
            return code
        try:
            return ALL_LANGUAGES[code]
        except (KeyError, TypeError):  # TypeError: the code is not hashable
            raise _unknown_language(code) from None

    @classmethod
    def with_board(cls, code: str | Language) -> Language:
        """Return the language with an ISO 639-1 code, if it has a bundled leaderboard.

        Call this method before looking up a language in a table that covers only
        :data:`LANGUAGES`. Any other language then raises an error, instead of being treated as
        English by default.

        Args:
            code: ISO 639-1 code, or a :class:`Language`.

        Raises:
            UnknownNameError: If there is no such language, or it has no bundled leaderboard.

        Example:
            >>> Language.with_board("sw").name
            'Swahili'
        """
        entry = cls.of(code)
        if not entry.board:
            raise _language_without_board(entry)
        return entry


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


_TABLE = (
    Language(
        code="ar",
        name="Arabic",
        native_name="العربية",
        stemmer="arabic",
        analyzer="stems",
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
            "مصدر, النص, المرجع, مرجع"
        ),
        conjunctions=_words("و"),
    ),
    Language(
        code="bn",
        name="Bengali",
        native_name="বাংলা",
        analyzer="trigrams",
        endings=True,
        capitals="none",
        script="Bengali",
        inner_stops="ড|ডা|মো",
        bleu_tokenizer="intl",
        digits="০১২৩৪৫৬৭৮৯",
        terminators=".!?…।॥",
        reason_headings=_words("কারণ, যুক্তি"),
        answer_headings=_words("উত্তর, জবাব"),
        passage_words=_words("প্রসঙ্গ, অনুচ্ছেদ, নথি, উৎস, সূত্র, তথ্যসূত্র, প্যাসেজ, ডকুমেন্ট"),
        conjunctions=_words("এবং, ও"),
    ),
    Language(
        code="de",
        name="German",
        native_name="Deutsch",
        stemmer="german",
        analyzer="trigrams",
        neighbours=("nl", "da"),
        capitals="nouns",
        inner_stops=r"\d{1,2}",
        reason_headings=_words("Begründung, Grund, Gründe"),
        answer_headings=_words("Antwort"),
        passage_words=_words("Kontext, Dokument, Quelle, Abschnitt, Textstelle, Absatz, Referenz"),
        conjunctions=_words("und"),
    ),
    Language(
        code="en",
        name="English",
        native_name="English",
        stemmer="english",
        analyzer="stems",
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
        stemmer="spanish",
        neighbours=("pt", "ca", "it"),
        inner_stops=r"[ad]\. ?C",
        reason_headings=_words("Razón, Razones, Razonamiento, Motivo, Justificación"),
        answer_headings=_words("Respuesta"),
        passage_words=_words(
            "Contexto, Pasaje, Documento, Fuente, Fragmento, Párrafo, Texto, Referencia"
        ),
        conjunctions=_words("y, e"),
    ),
    Language(
        code="fa",
        name="Persian",
        native_name="فارسی",
        analyzer="trigrams",
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
        passage_words=_words("متن, سند, منبع, مرجع, بند, پاراگراف, قطعه, زمینه"),
        conjunctions=_words("و"),
    ),
    Language(
        code="fi",
        name="Finnish",
        native_name="suomi",
        stemmer="finnish",
        analyzer="trigrams",
        endings=True,
        neighbours=("et",),
        inner_stops=r"\d{1,2}",
        reason_headings=_words("Perustelu, Perustelut, Syy"),
        answer_headings=_words("Vastaus"),
        passage_words=_words(
            "Konteksti, Kappale, Katkelma, Asiakirja, Dokumentti, Lähde, Viite, Teksti"
        ),
        conjunctions=_words("ja"),
    ),
    Language(
        code="fr",
        name="French",
        native_name="français",
        stemmer="french",
        neighbours=("it", "ca"),
        inner_stops=r"MM?|Mme|Mlle|J(?=\.-)",
        reason_headings=_words("Raison, Raisons, Raisonnement, Justification"),
        answer_headings=_words("Réponse"),
        passage_words=_words("Contexte, Extrait, Paragraphe, Texte, Référence"),
        conjunctions=_words("et"),
    ),
    Language(
        code="hi",
        name="Hindi",
        native_name="हिन्दी",
        stemmer="hindi",
        analyzer="stems",
        spelling_variants=("़", "ँं", "ीि", "ईइ", "ूु", "ऊउ", "ैे", "ऐए", "ौो", "औओ"),
        capitals="none",
        script="Devanagari",
        neighbours=("mr",),
        inner_stops="डॉ|श्री|प्रो",
        bleu_tokenizer="intl",
        digits="०१२३४५६७८९",
        terminators=".!?…।॥",
        reason_headings=_words("कारण, तर्क"),
        answer_headings=_words("उत्तर, जवाब"),
        passage_words=_words("संदर्भ, सन्दर्भ, प्रसंग, अनुच्छेद, परिच्छेद, गद्यांश, दस्तावेज़, दस्तावेज, स्रोत"),
        conjunctions=_words("और, एवं, व"),
    ),
    Language(
        code="id",
        name="Indonesian",
        native_name="Bahasa Indonesia",
        stemmer="indonesian",
        analyzer="stems",
        neighbours=("tl",),
        reason_headings=_words("Alasan"),
        answer_headings=_words("Jawaban"),
        passage_words=_words(
            "Konteks, Bagian, Kutipan, Dokumen, Sumber, Referensi, Paragraf, Teks"
        ),
        conjunctions=_words("dan"),
    ),
    Language(
        code="ja",
        name="Japanese",
        native_name="日本語",
        analyzer="bigrams",
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
        analyzer="bigrams",
        endings=True,
        capitals="none",
        script="Hangul",
        # Particles are attached to words, so n-grams of characters are closer to morphemes.
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
        stemmer="russian",
        analyzer="stems",
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
        passage_words=_words("Muktadha, Kifungu, Aya, Hati, Chanzo, Rejea"),
        conjunctions=_words("na"),
    ),
    Language(
        code="te",
        name="Telugu",
        native_name="తెలుగు",
        analyzer="trigrams",
        endings=True,
        capitals="none",
        script="Telugu",
        inner_stops="డా|శ్రీ",
        bleu_tokenizer="intl",
        digits="౦౧౨౩౪౫౬౭౮౯",
        terminators=".!?…।॥",
        reason_headings=_words("కారణం, కారణాలు"),
        answer_headings=_words("సమాధానం, జవాబు"),
        passage_words=_words("సందర్భం, ప్యాసేజ్, పేరా, భాగం, పత్రం, మూలం, ఆధారం"),
        conjunctions=_words("మరియు"),
    ),
    Language(
        code="th",
        name="Thai",
        native_name="ไทย",
        analyzer="bigrams",
        capitals="none",
        script="Thai",
        sentence_ends="spaces",
        tokens="character",
        gram_length=2,
        bleu_tokenizer="char",
        digits="๐๑๒๓๔๕๖๗๘๙",
        reason_headings=_words("เหตุผล"),
        answer_headings=_words("คำตอบ"),
        passage_words=_words("บริบท, ข้อความ, ย่อหน้า, เอกสาร, แหล่งที่มา, แหล่งข้อมูล, อ้างอิง"),
        conjunctions=_words("และ"),
    ),
    Language(
        code="yo",
        name="Yoruba",
        native_name="Yorùbá",
        analyzer="trigrams",
        reason_headings=_words("Ìdí, Idi"),
        answer_headings=_words("Ìdáhùn, Idahun"),
        passage_words=_words("Àyọkà, Ayoka, Ìwé, Iwe, Orísun, Orisun"),
        conjunctions=_words("àti, ati"),
    ),
    Language(
        code="zh",
        name="Chinese",
        native_name="中文",
        analyzer="bigrams",
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

_WITHOUT_BOARD = (
    Language(
        code="it",
        name="Italian",
        native_name="italiano",
        neighbours=("ca", "pt"),
        inner_stops=r"[ad]\. ?C|[Ss]ig|[Dd]ott|[Pp]rof",
        reason_headings=_words("Motivo, Motivazione, Ragionamento, Spiegazione"),
        answer_headings=_words("Risposta"),
        passage_words=_words(
            "Contesto, Brano, Passaggio, Documento, Fonte, Estratto, Testo, Riferimento"
        ),
        conjunctions=_words("e, ed"),
        board=False,
    ),
    Language(
        code="pt",
        name="Portuguese",
        native_name="português",
        neighbours=("ca", "it"),
        inner_stops=r"[ad]\. ?C|[Ss]ra?|[Dd]ra?|[Pp]rof",
        reason_headings=_words("Razão, Motivo, Raciocínio, Justificativa, Justificação"),
        answer_headings=_words("Resposta"),
        passage_words=_words(
            "Contexto, Trecho, Passagem, Documento, Fonte, Parágrafo, Texto, Referência"
        ),
        conjunctions=_words("e"),
        board=False,
    ),
)


def _by_code(entries: Sequence[Language]) -> Mapping[str, Language]:
    """Return languages by code; a code that occurs twice is an error."""
    by_code: dict[str, Language] = {}
    for entry in entries:
        if entry.code in by_code:
            raise SettingError(
                f"the language {entry.code!r} is listed twice in mirage/languages.py; keep one "
                "entry"
            )
        by_code[entry.code] = entry
    return MappingProxyType(by_code)


LANGUAGES: Mapping[str, Language] = _by_code(_TABLE)
"""The 18 languages with a bundled board by ISO 639-1 code, in alphabetical order of code."""

ALL_LANGUAGES: Mapping[str, Language] = _by_code((*_TABLE, *_WITHOUT_BOARD))
"""All languages by code: those of :data:`LANGUAGES`, then those without a board."""


def _unknown_language(code: object) -> UnknownNameError:
    error = UnknownNameError("language", code, ALL_LANGUAGES)
    nearest = _nearest_language(str(code))
    # Similar codes do not mean similar languages: `it` is not `th`. So names are compared.
    hint = f"did you mean {nearest.code!r}?" if nearest else f"known: {', '.join(ALL_LANGUAGES)}"
    error.args = (f"unknown language {code!r}; {hint}",)
    return error


def _language_without_board(entry: Language) -> UnknownNameError:
    error = UnknownNameError("language", entry.code, LANGUAGES)
    error.args = (
        f"{entry.name} ({entry.code}) has no bundled board, and no word lists of claims and "
        "abstentions; it is supported only for retrieval, prompts, qa_* metrics and language "
        f"identification. Languages with a board: {', '.join(LANGUAGES)}",
    )
    return error


def _nearest_language(word: str) -> Language | None:
    """Return the language whose code, English name or native name is most similar to a word.

    The result is ``None`` if no language is similar enough.
    """
    word = word.strip().casefold()
    tag = word.replace("_", "-").split("-")[0]
    if tag in ALL_LANGUAGES:
        return ALL_LANGUAGES[tag]
    names = {
        name.casefold(): entry
        for entry in ALL_LANGUAGES.values()
        for name in (entry.name, entry.native_name)
    }
    close_names = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return names[close_names[0]] if close_names else None
