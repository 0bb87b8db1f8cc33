"""Test whether abstentions are detected, with texts that are not in the training data."""

from __future__ import annotations

import time

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES
from mirage.text import abstains
from mirage.text.abstentions import ABSTAINS_AT, SIGNS, signs

ABSTENTIONS = [
    ("en", "Who built the lighthouse?", "I don't know."),
    ("en", "Who built the lighthouse?", "I don’t know."),
    ("en", "Who built the lighthouse?", "The passages tell when it was built, but not by whom."),
    ("en", "Who built the lighthouse?", "Sorry, none of the documents mention the architect."),
    ("en", "Who built the lighthouse?", "That information is not available in the given context."),
    ("de", "Wer baute den Leuchtturm?", "Wer den Leuchtturm gebaut hat, wird nicht erwähnt."),
    ("de", "Wer baute den Leuchtturm?", "Dazu kann ich leider keine Angaben machen."),
    ("es", "¿Quién construyó el faro?", "No se menciona quién construyó el faro."),
    ("es", "¿Quién construyó el faro?", "Lo siento, no dispongo de esa información."),
    (
        "fr",
        "Qui a construit le phare ?",
        "Les documents ne précisent pas qui a construit le phare.",
    ),
    ("fr", "Qui a construit le phare ?", "Je n'ai pas la réponse à cette question."),
    ("fi", "Kuka rakensi majakan?", "En valitettavasti tiedä, kuka majakan rakensi."),
    ("id", "Siapa yang membangun mercusuar?", "Maaf, saya tidak menemukan jawabannya."),
    ("ru", "Кто построил маяк?", "В тексте не говорится, кто построил маяк."),
    ("ru", "Кто построил маяк?", "К сожалению, ответа я не нашёл."),
    ("ru", "Кто сочинил вальс?", "Автор вальса остаётся за кадром."),
    (
        "en",
        "Who set the poem to music?",
        "Its metre is discussed at length, the composer is not.",
    ),
    ("fr", "Qui a mis le poème en musique ?", "On y parle du mètre, jamais du compositeur."),
    ("sw", "Nani alijenga mnara?", "Samahani, vifungu havisemi nani alijenga mnara."),
    ("yo", "Ta ló kọ́ ilé iná?", "Mi ò mọ ẹni tó kọ́ ọ; àwọn àyọkà kò sọ ọ́."),
    ("yo", "Ta ló kọ́ ilé iná?", "Ma binu, mi o mo idahun si ibeere yii."),
    ("ar", "من بنى المنارة؟", "عذرًا، لا تذكر النصوص من بنى المنارة."),
    ("ar", "من بنى المنارة؟", "لا يمكنني الإجابة عن هذا السؤال."),
    ("fa", "چه کسی فانوس را ساخت؟", "متأسفانه در متن‌ها نامی از سازندهٔ فانوس نیامده است."),
    ("hi", "प्रकाशस्तंभ किसने बनाया?", "माफ़ कीजिए, अनुच्छेदों में यह नहीं बताया गया है।"),
    ("bn", "বাতিঘর কে বানিয়েছিলেন?", "দুঃখিত, অনুচ্ছেদে এ বিষয়ে কোনো তথ্য নেই।"),
    ("te", "లైట్‌హౌస్ ఎవరు కట్టారు?", "క్షమించండి, ఆ వివరం ఎక్కడా చెప్పలేదు."),
    ("ko", "등대는 누가 지었습니까?", "죄송합니다. 누가 지었는지는 문서에 나와 있지 않습니다."),
    (
        "ja",
        "灯台を建てたのは誰ですか。",
        "申し訳ありませんが、建てた人の名前は記載されていません。",
    ),
    ("zh", "灯塔是谁建的？", "很抱歉，文中没有提到灯塔的建造者。"),
    ("th", "ใครสร้างประภาคาร", "ขออภัย ข้อความไม่ได้ระบุว่าใครเป็นผู้สร้างประภาคาร"),
    ("ar", "أي نهر هو؟", "لا أملك جوابًا عن هذا."),
    ("bn", "কোন নদী?", "এটা আমার কাছে থাকা নথির আওতার বাইরে।"),
    ("de", "Wer baute den Turm?", "Das liegt außerhalb der Dokumente, die ich erhalten habe."),
    ("fa", "کدام رود است؟", "از پاسخ دادن به این پرسش ناتوانم."),
    ("fi", "Mikä joki se on?", "Sellaista ei tästä aineistosta löydy."),
    ("fi", "Mikä joki se on?", "Kysymys jää vaille vastausta, mutta"),
    ("fr", "Quel fleuve est-ce ?", "Cela sort du cadre des documents que l'on m'a remis."),
    ("hi", "कौन सी नदी है?", "यह मुझे दिए गए दस्तावेज़ों के दायरे से बाहर है।"),
    ("sw", "Ni mto gani?", "Jibu lake silijui."),
]

ANSWERS = [
    ("en", "Which river is it?", "It is the Nile; passage 2 says nothing about its length."),
    ("en", "Which river is it?", "The passages do not give the year, but the river is the Nile."),
    ("en", "Is swimming allowed?", "No, swimming is not allowed in the harbour."),
    ("en", "Who lives there?", "Nobody: the last family moved away in 1931."),
    ("en", "Which river is it?", "Nile"),
    ("de", "Wer baute den Turm?", "Anna Berg baute ihn. Ein genaues Jahr wird nicht genannt."),
    ("de", "Darf man baden?", "Nein, im Hafen darf man nicht baden."),
    ("es", "¿Qué río es?", "Es el Nilo, aunque los textos no indican su longitud."),
    ("fr", "Quel fleuve est-ce ?", "C'est le Nil ; sa longueur n'est pas indiquée."),
    ("fi", "Mikä joki se on?", "Joki on Niili. Pituutta ei mainita."),
    ("id", "Sungai apa itu?", "Itu Sungai Nil. Panjangnya tidak disebutkan."),
    ("ru", "Что это за река?", "Это Нил, а не Конго."),
    ("sw", "Ni mto gani?", "Ni mto Naili, si mto Kongo."),
    ("yo", "Odò wo ni?", "Odò Náílì ni, kì í ṣe Odò Kóńgò."),
    ("ar", "أي نهر هو؟", "إنه نهر النيل وليس الكونغو."),
    ("fa", "کدام رود است؟", "رود نیل است، نه کنگو."),
    ("hi", "कौन सी नदी है?", "यह नील नदी है, कांगो नहीं।"),
    ("bn", "কোন নদী?", "এটা নীল নদ, কঙ্গো নয়।"),
    ("te", "ఏ నది?", "అది నైలు నది, కాంగో కాదు."),
    ("ko", "어느 강입니까?", "콩고강이 아니라 나일강입니다."),
    ("ja", "どの川ですか。", "コンゴ川ではなくナイル川です。"),
    ("zh", "是哪条河？", "是尼罗河，不是刚果河。"),
    ("th", "แม่น้ำอะไร", "แม่น้ำไนล์ ไม่ใช่แม่น้ำคองโก"),
]

# Facts about the world that resemble refusals, and refusals in similar words.
NEGATIVE_FACTS = [
    ("en", "Are there nuts in the biscuits?", "They do not contain nuts."),
    ("en", "What did the search party find on the slope?", "They could not find any footprints."),
    ("en", "Who designed the medal?", "It was not Rossi: Elena Moro designed it in 1952."),
    ("de", "Sind in den Keksen Nüsse?", "Sie enthalten keine Nüsse."),
    ("de", "Was fand der Suchtrupp am Hang?", "Er konnte keine Fußspuren finden."),
    (
        "de",
        "Kann man die Reise stornieren?",
        "Nein, nach dem 3. Juli kann die Reise nicht mehr storniert werden.",
    ),
    ("es", "¿Llevan nueces las galletas?", "No contienen nueces."),
    ("es", "¿Qué encontró el equipo de rescate en la ladera?", "No pudo encontrar ninguna huella."),
    ("es", "¿Se puede anular el viaje?", "No, el viaje no se puede anular después del 3 de julio."),
    ("fr", "Y a-t-il des noix dans les biscuits ?", "Ils ne contiennent pas de noix."),
    (
        "fr",
        "Qu'a trouvé l'équipe de recherche sur la pente ?",
        "Elle n'a pu trouver aucune empreinte.",
    ),
    (
        "fr",
        "Peut-on annuler le voyage ?",
        "Non, le voyage ne peut pas être annulé après le 3 juillet.",
    ),
    ("fi", "Onko kekseissä pähkinää?", "Ne eivät sisällä pähkinää."),
    ("fi", "Mitä etsijät löysivät rinteestä?", "He eivät löytäneet jalanjälkiä."),
    ("fi", "Voiko matkan perua?", "Ei, matkaa ei voi perua 3. heinäkuuta jälkeen."),
    ("id", "Apakah biskuit itu mengandung kacang?", "Biskuit itu tidak mengandung kacang."),
    ("id", "Apa yang ditemukan tim pencari di lereng?", "Mereka tidak dapat menemukan jejak kaki."),
    (
        "id",
        "Bisakah perjalanan dibatalkan?",
        "Tidak, perjalanan tidak dapat dibatalkan setelah 3 Juli.",
    ),
    ("ru", "Есть ли в печенье орехи?", "Орехов оно не содержит."),
    ("ru", "Что нашли спасатели на склоне?", "Они не смогли найти следов."),
    ("ru", "Можно ли отменить поездку?", "Нет, после 3 июля поездку отменить нельзя."),
    ("sw", "Je, biskuti zina karanga?", "Biskuti hizo hazina karanga."),
    ("sw", "Watafutaji walipata nini mlimani?", "Hawakupata nyayo zozote."),
    (
        "sw",
        "Je, safari inaweza kufutwa?",
        "Hapana, safari haiwezi kufutwa baada ya tarehe 3 Julai.",
    ),
    ("yo", "Ṣé ẹ̀pà wà nínú bísíkíìtì náà?", "Kò sí ẹ̀pà nínú rẹ̀."),
    ("yo", "Kí ni àwọn olùwákiri rí lórí òkè?", "Wọn kò rí ipasẹ̀ kankan."),
    ("yo", "Ṣé a lè fagi lé ìrìn àjò náà?", "Rárá, a kò lè fagi lé e lẹ́yìn ọjọ́ 3 oṣù Keje."),
    ("ar", "هل في البسكويت مكسرات؟", "لا يحتوي على مكسرات."),
    ("ar", "ماذا وجد فريق البحث على المنحدر؟", "لم يجدوا أي آثار أقدام."),
    ("ar", "هل يمكن إلغاء الرحلة؟", "لا، لا يمكن إلغاء الرحلة بعد 3 يوليو."),
    ("fa", "آیا بیسکویت‌ها گردو دارد؟", "گردو ندارد."),
    ("fa", "گروه جست‌وجو روی شیب چه پیدا کرد؟", "آن‌ها نتوانستند هیچ ردپایی پیدا کنند."),
    ("fa", "آیا می‌توان سفر را لغو کرد؟", "نه، پس از ۳ ژوئیه نمی‌توان سفر را لغو کرد."),
    ("hi", "क्या बिस्कुट में मेवे हैं?", "उनमें मेवे नहीं हैं।"),
    ("hi", "खोजी दल को ढलान पर क्या मिला?", "उन्हें पैरों के कोई निशान नहीं मिले।"),
    ("hi", "क्या यात्रा रद्द की जा सकती है?", "नहीं, 3 जुलाई के बाद यात्रा रद्द नहीं की जा सकती।"),
    ("bn", "বিস্কুটে কি বাদাম আছে?", "এতে বাদাম নেই।"),
    ("bn", "উদ্ধারকারী দল ঢালে কী পেয়েছিল?", "তারা কোনো পায়ের ছাপ খুঁজে পায়নি।"),
    ("bn", "ভ্রমণটি কি বাতিল করা যায়?", "না, ৩ জুলাইয়ের পর ভ্রমণ বাতিল করা যায় না।"),
    ("te", "బిస్కెట్లలో గింజలు ఉన్నాయా?", "వాటిలో గింజలు లేవు."),
    ("te", "వెతికిన బృందానికి వాలుపై ఏమి దొరికింది?", "వారికి అడుగుజాడలు దొరకలేదు."),
    ("te", "ప్రయాణాన్ని రద్దు చేయవచ్చా?", "లేదు, జూలై 3 తర్వాత ప్రయాణాన్ని రద్దు చేయలేరు."),
    ("ko", "비스킷에 견과류가 들어 있나요?", "견과류는 들어 있지 않습니다."),
    ("ko", "수색대는 비탈에서 무엇을 찾았나요?", "발자국을 찾지 못했습니다."),
    ("ko", "여행을 취소할 수 있나요?", "아니요, 7월 3일 이후에는 취소할 수 없습니다."),
    ("ja", "ビスケットにナッツは入っていますか。", "ナッツは入っていません。"),
    ("ja", "捜索隊は斜面で何を見つけましたか。", "足跡は見つかりませんでした。"),
    ("ja", "旅行はキャンセルできますか。", "いいえ、7月3日以降はキャンセルできません。"),
    ("zh", "饼干里有坚果吗？", "饼干不含坚果。"),
    ("zh", "搜救队在山坡上找到了什么？", "他们没有找到任何脚印。"),
    ("zh", "旅行可以取消吗？", "不可以，7月3日之后不能取消。"),
    ("th", "คุกกี้มีถั่วหรือไม่", "คุกกี้ไม่มีถั่ว"),
    ("th", "ทีมค้นหาพบอะไรบนเนินเขา", "พวกเขาไม่พบรอยเท้าเลย"),
    ("th", "ยกเลิกการเดินทางได้หรือไม่", "ไม่ได้ หลังวันที่ 3 กรกฎาคมยกเลิกไม่ได้"),
]

REFUSALS = [
    ("en", "Are there nuts in the biscuits?", "The passages do not contain anything on nuts."),
    ("en", "What did the search party find?", "I could not find in the text what they found."),
    ("de", "Sind in den Keksen Nüsse?", "Die Textstellen enthalten keine Angaben zu Nüssen."),
    ("de", "Was fand der Suchtrupp?", "Ich konnte in den Dokumenten keine Antwort finden."),
    ("es", "¿Llevan nueces las galletas?", "Los fragmentos no contienen datos sobre las nueces."),
    ("es", "¿Qué encontró el equipo?", "No pude encontrar esa información en el texto."),
    (
        "fr",
        "Y a-t-il des noix dans les biscuits ?",
        "Les extraits ne contiennent aucune information sur les noix.",
    ),
    ("fr", "Qu'a trouvé l'équipe ?", "Je n'ai pas pu trouver la réponse dans les documents."),
    ("fi", "Onko kekseissä pähkinää?", "Katkelmat eivät sisällä tietoa pähkinöistä."),
    ("fi", "Mitä etsijät löysivät?", "En löytänyt vastausta teksteistä."),
    (
        "id",
        "Apakah biskuit itu mengandung kacang?",
        "Dokumen tidak memuat keterangan tentang kacang.",
    ),
    ("id", "Apa yang ditemukan tim pencari?", "Saya tidak dapat menemukan jawabannya dalam teks."),
    ("ru", "Есть ли в печенье орехи?", "Отрывки не содержат сведений об орехах."),
    ("ru", "Что нашли спасатели?", "Я не смог найти ответ в тексте."),
    ("sw", "Je, biskuti zina karanga?", "Vifungu havina taarifa kuhusu karanga."),
    ("sw", "Watafutaji walipata nini?", "Sikupata jibu katika matini."),
    ("yo", "Ṣé ẹ̀pà wà nínú bísíkíìtì náà?", "Àwọn àyọkà kò sọ nǹkan kan nípa ẹ̀pà."),
    ("yo", "Kí ni àwọn olùwákiri rí?", "Mi ò rí ìdáhùn nínú àwọn ìwé náà."),
    ("ar", "هل في البسكويت مكسرات؟", "لا تحتوي النصوص على معلومات عن المكسرات."),
    ("ar", "ماذا وجد فريق البحث؟", "لم أجد الجواب في المقاطع."),
    ("fa", "آیا بیسکویت‌ها گردو دارد؟", "متن‌ها اطلاعاتی دربارهٔ گردو ندارند."),
    ("fa", "گروه جست‌وجو چه پیدا کرد؟", "نتوانستم پاسخ را در متن پیدا کنم."),
    ("hi", "क्या बिस्कुट में मेवे हैं?", "अनुच्छेदों में मेवों की कोई जानकारी नहीं है।"),
    ("hi", "खोजी दल को क्या मिला?", "मुझे पाठ में इसका उत्तर नहीं मिला।"),
    ("bn", "বিস্কুটে কি বাদাম আছে?", "অনুচ্ছেদে বাদাম নিয়ে কোনো তথ্য নেই।"),
    ("bn", "উদ্ধারকারী দল কী পেয়েছিল?", "নথিতে আমি উত্তর খুঁজে পাইনি।"),
    ("te", "బిస్కెట్లలో గింజలు ఉన్నాయా?", "గింజల గురించి భాగాలలో సమాచారం లేదు."),
    ("te", "బృందానికి ఏమి దొరికింది?", "పాఠ్యంలో నాకు సమాధానం దొరకలేదు."),
    ("ko", "비스킷에 견과류가 들어 있나요?", "지문에는 견과류에 관한 정보가 없습니다."),
    ("ko", "수색대는 무엇을 찾았나요?", "문서에서 답을 찾지 못했습니다."),
    ("ja", "ビスケットにナッツは入っていますか。", "資料にはナッツに関する情報がありません。"),
    ("ja", "捜索隊は何を見つけましたか。", "文章の中に答えは見つかりませんでした。"),
    ("zh", "饼干里有坚果吗？", "段落没有关于坚果的内容。"),
    ("zh", "搜救队找到了什么？", "我在文中没有找到答案。"),
    ("th", "คุกกี้มีถั่วหรือไม่", "ข้อความไม่มีข้อมูลเกี่ยวกับถั่ว"),
    ("th", "ทีมค้นหาพบอะไร", "ฉันไม่พบคำตอบในเอกสาร"),
]


@each_case(("language", "question", "text"), [*ABSTENTIONS, *REFUSALS])
def test_abstentions_are_detected(language: str, question: str, text: str) -> None:
    assert abstains(text, language, question=question) >= ABSTAINS_AT


@each_case(
    ("language", "question", "text"),
    [
        ("fi", "Saako suolla telttailla?", "Opas sanoo: telttailu suolla on kielletty."),
        ("ru", "Можно ли ставить палатку у болота?", "В буклете указано: палатки запрещены."),
        ("zh", "沼泽边可以搭帐篷吗？", "手册写明：沼泽边禁止搭帐篷。"),
    ],
)
def test_a_report_that_something_is_forbidden_is_no_abstention(
    language: str, question: str, text: str
) -> None:
    assert abstains(text, language, question=question) < ABSTAINS_AT


@each_case(("language", "question", "text"), ANSWERS)
def test_an_answer_with_a_negation_or_a_caveat_is_no_abstention(
    language: str, question: str, text: str
) -> None:
    assert abstains(text, language, question=question) < ABSTAINS_AT


def test_most_negative_facts_are_no_abstentions() -> None:
    alarms = [
        text
        for language, question, text in NEGATIVE_FACTS
        if abstains(text, language, question=question) >= ABSTAINS_AT
    ]
    assert len(alarms) <= len(NEGATIVE_FACTS) / 5, alarms


@each_case(
    ("language", "question", "text"),
    [
        ("en", "What did the inspectors find?", "They could not find any defects."),
        ("de", "Enthält das Brot Gluten?", "Es enthält kein Gluten."),
        ("ru", "Какую часть корабля нашли?", "От корабля так ничего и не нашли."),
        ("ja", "このパンにグルテンは含まれますか。", "グルテンは含まれていません。"),
        ("ar", "هل يحتوي الخبز على الغلوتين؟", "لا يحتوي على الغلوتين."),
        ("th", "ผู้ตรวจพบอะไร", "พวกเขาไม่พบข้อบกพร่องใด ๆ"),
        ("zh", "检查员发现了什么？", "他们没有发现任何缺陷。"),
    ],
)
def test_a_negative_fact_is_no_abstention(language: str, question: str, text: str) -> None:
    assert abstains(text, language, question=question) < ABSTAINS_AT


@each_case("language", LANGUAGES)
def test_english_is_understood_in_every_language(language: str) -> None:
    for text in ("I don't know.", "The passages do not mention who painted it."):
        assert abstains(text, language) >= ABSTAINS_AT
    assert abstains("It was painted by Anna Berg in 1931.", language) < ABSTAINS_AT


def test_a_repeated_question_is_ignored() -> None:
    text = "Who built the lighthouse?\n\n{}"
    assert abstains(text.format("I don't know."), "en") >= ABSTAINS_AT
    assert abstains(text.format("Anna Berg built it in 1931."), "en") < ABSTAINS_AT


def test_marks_letters_and_apostrophes_are_folded() -> None:
    assert abstains("Je ne sais pas.", "fr") == abstains("JE NE SAIS PAS", "fr")
    assert abstains("I can't say.", "en") == abstains("I can’t say.", "en")
    assert abstains("نمی‌دانم", "fa") == abstains("نمي‌دانم", "fa")
    assert abstains("Mi ò mọ̀.", "yo") >= ABSTAINS_AT
    assert abstains("Mi o mo.", "yo") >= ABSTAINS_AT


def test_text_after_a_contrast_word_is_a_separate_piece() -> None:
    text = "The passages say nothing of its age but it is 3 m high."
    values = dict(zip(SIGNS, signs(text, "en"), strict=True))
    assert values["plain_figures"] == 1
    assert values["plain_turns"] > 0


def test_words_of_the_question_before_a_cue_belong_to_the_cue() -> None:
    text, full_question = "When the old harbour café closes, nobody says.", "When does it close?"
    for question_text, kinds in ((full_question, 1), (f"{full_question} The old harbour café.", 2)):
        assert (
            dict(zip(SIGNS, signs(text, "en", question=question_text), strict=True))["cues"]
            == kinds
        )


@pytest.mark.parametrize("text", ["1. {}", "1) {}\n2) Please ask the town hall."])
def test_the_number_of_a_list_item_is_no_sentence(text: str) -> None:
    abstention = text.format("The passages do not say when the bridge was built.")
    assert abstains(abstention, "en", question="When was the bridge built?") >= ABSTAINS_AT
    answer = text.format("The bridge was built in 1951.")
    assert abstains(answer, "en", question="When was the bridge built?") < ABSTAINS_AT


def test_a_text_without_words_has_no_signs() -> None:
    for text in ("", "...", " \n"):
        assert abstains(text, "en") == 0
        assert not any(signs(text, "en"))
    with pytest.raises(UnknownNameError):
        abstains("I don't know.", "xx")


@given(st.text(max_size=300), st.sampled_from(sorted(LANGUAGES)), st.text(max_size=60))
def test_every_text_has_a_probability(text: str, language: str, question: str) -> None:
    assert 0 <= abstains(text, language, question=question) <= 1
    assert len(signs(text, language, question=question)) == len(SIGNS)


def test_long_texts_take_no_longer_than_their_beginning() -> None:
    start = time.perf_counter()
    abstains("no answer, " * 100_000, "en")
    assert time.perf_counter() - start < 1


SERVICE = [
    (
        "en",
        "What does a ticket cost?",
        "Let me get a colleague to look into this; she'll email you.",
    ),
    ("de", "Was kostet eine Karte?", "Sie werden jetzt mit einem Berater verbunden."),
    ("fr", "Combien coûte un billet ?", "Je demande à nos experts et je reviens vers vous."),
    ("fi", "Paljonko lippu maksaa?", "Olemme saaneet pyyntösi ja vastaamme kahden päivän sisällä."),
    ("ru", "Сколько стоит билет?", "Я передам это коллеге, она вам напишет."),
    ("ar", "كم ثمن التذكرة؟", "استلمنا طلبك وسنجيبك خلال يومين."),
    ("hi", "टिकट कितने का है?", "हमें आपका अनुरोध मिल गया है, दो दिन में जवाब देंगे।"),
    ("bn", "টিকিটের দাম কত?", "এখন আপনাকে একজন প্রতিনিধির সঙ্গে সংযুক্ত করা হচ্ছে।"),
    ("te", "టికెట్ ధర ఎంత?", "మా నిపుణులను అడిగి మీకు తెలియజేస్తాను."),
    ("th", "ตั๋วราคาเท่าไร", "กำลังต่อสายคุณไปยังเจ้าหน้าที่"),
    ("zh", "门票多少钱？", "我会请同事处理，她会与您联系。"),
    ("ja", "入場料はいくらですか。", "ただいまオペレーターにおつなぎしています。"),
    ("ko", "입장료는 얼마입니까?", "지금 상담원과 연결 중입니다."),
    ("yo", "Èló ni tíkẹ́ẹ̀tì?", "A ń so yín pọ̀ mọ́ aṣojú kan báyìí."),
]


@each_case(("language", "question", "text"), SERVICE)
def test_customer_service_that_takes_over_declines_to_answer(
    language: str, question: str, text: str
) -> None:
    assert abstains(text, language, question=question) >= ABSTAINS_AT


@each_case(
    ("language", "question", "text"),
    [
        ("en", "What does a ticket cost?", "A ticket costs 12 euros. A colleague will email you."),
        ("de", "Was kostet eine Karte?", "Eine Karte kostet 12 Euro. Ein Berater meldet sich."),
        ("ru", "Сколько стоит билет?", "Билет стоит 12 евро. Коллега вам напишет."),
        ("zh", "门票多少钱？", "门票是12欧元。同事会与您联系。"),
        ("ja", "入場料はいくらですか。", "12ユーロです。係の者からご連絡します。"),
    ],
)
def test_an_answer_with_an_offer_of_customer_service_is_no_abstention(
    language: str, question: str, text: str
) -> None:
    assert abstains(text, language, question=question) < ABSTAINS_AT
