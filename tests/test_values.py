"""Test that equal dates, years, amounts and names match in different forms, and others do not."""

from __future__ import annotations

import calendar
from datetime import date

from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

from mirage.languages import LANGUAGES
from mirage.text import mention, mentioned
from mirage.text._candidates import locate
from mirage.text.numbers import numbers
from mirage.text.quantities import dates

EQUAL = [
    # language, form, text
    ("en", "15 April 1912", "It sank on 15.04.1912."),
    ("en", "15 April 1912", "It sank on 1912-04-15."),
    ("en", "15 April 1912", "It sank on 4/15/1912."),
    ("en", "15.04.1912", "It sank on 15 April 1912."),
    ("en", "1912-04-15", "It sank on April 15, 1912."),
    ("en", "April 1912", "It sank on 15.04.1912."),
    ("en", "1912", "It sank on 15.04.1912."),
    ("de", "15. April 1912", "Sie sank am 15.04.1912."),
    ("th", "1912", "เรือจมในปี พ.ศ. 2455"),
    ("th", "15 เมษายน 1912", "15 เมษายน 2455"),
    ("th", "15 เมษายน 1912", "๑๕ เมษายน พ.ศ. ๒๔๕๕"),
    ("ja", "1912年", "明治45年に沈没した。"),
    ("ja", "1912年4月15日", "明治45年4月15日に沈没した。"),
    ("ja", "2019年", "令和元年"),
    ("fa", "15 آوریل 1912", "۲۶ فروردین ۱۲۹۱"),
    ("fa", "1912", "سال ۱۲۹۱ خورشیدی"),
    ("fa", "1912-10-15", "در ۱۵ اکتبرماه ۱۹۱۲ غرق شد."),
    ("en", "5500", "It costs 5,500.00."),
    ("en", "5,500", "It costs 5.5 thousand."),
    ("en", "5,500 yen", "It costs 5.5 thousand yen."),
    ("en", "2 million", "There are 2,000,000."),
    ("en", "130", "It takes 130.0."),
    ("en", "6,600 km", "It is 4,100 miles long."),
    ("en", "6.6 km", "It is 6,600 metres long."),
    ("en", "2 tonnes", "It weighs 2,000 kg."),
    ("en", "100 °C", "It boils at 212 °F."),
    ("en", "90 minutes", "It takes 1.5 hours."),
    ("de", "6600 Kilometer", "Er ist 6.600 km lang."),
    ("es", "6600 kilómetros", "Mide 6.600 km."),
    ("fr", "6600 kilomètres", "Il mesure 6 600 km."),
    ("fi", "6600 kilometriä", "Se on 6 600 km pitkä."),
    ("ru", "6600 км", "Его длина 6600 километров."),
    ("ar", "6600 كيلومتر", "طوله 6600 كم."),
    ("fa", "6600 کیلومتر", "طول آن 6600 km است."),
    ("hi", "6600 किलोमीटर", "यह 6,600 किमी लंबी है।"),
    ("bn", "6600 কিলোমিটার", "এটি 6,600 কিমি লম্বা।"),
    ("te", "6600 కిలోమీటర్లు", "ఇది 6,600 కి.మీ పొడవు."),
    ("id", "2 jam", "Selama 120 menit."),
    ("sw", "kilomita 6,600", "Una urefu wa 6,600 km."),
    ("yo", "kìlómítà 6,600", "Ó gùn tó 6,600 km."),
    ("th", "6600 กม.", "ยาว 6,600 กิโลเมตร"),
    ("ko", "6600km", "길이는 6,600킬로미터이다."),
    ("ko", "100℃", "섭씨 100도에서 끓는다."),
    ("ja", "100℃", "摂氏100度で沸騰する。"),
    ("zh", "6600公里", "全长6600千米。"),
    ("en", "Miguel de Cervantes", "M. de Cervantes wrote it."),
    ("en", "Miguel de Cervantes", "Cervantes, M. (1605)"),
    ("de", "Johann Sebastian Bach", "J. S. Bach schrieb es."),
    # numbers in words
    ("en", "36 metres", "It is thirty-six metres high."),
    ("en", "thirty-six metres", "It is 36 m high."),
    ("en", "3,700 kg", "It weighs three thousand seven hundred kilograms, or 3.7 tonnes."),
    ("en", "19 June 1962", "It opened on the nineteenth of June 1962."),
    ("de", "3700 kg", "Sie wiegt dreitausendsiebenhundert Kilogramm."),
    ("es", "1962", "en mil novecientos sesenta y dos"),
    ("fr", "19 juin 1962", "le dix-neuf juin mille neuf cent soixante-deux"),
    ("fi", "3500 metriä", "kolmetuhatta viisisataa metriä"),
    ("ru", "36 метров", "Высота тридцать шесть метров."),
    ("ar", "13 كيلومتر", "ثلاثة عشر كيلومتر"),
    ("fa", "3700 متر", "سه هزار و هفتصد متر"),
    ("hi", "3500 मीटर", "तीन हज़ार पाँच सौ मीटर"),
    ("bn", "3500 মিটার", "তিন হাজার পাঁচশো মিটার"),
    ("te", "36 మీటర్లు", "ముప్పై ఆరు మీటర్లు"),
    ("id", "19 Juni 1962", "pada sembilan belas Juni 1962"),
    ("id", "36 meter", "tiga puluh enam meter"),
    ("sw", "mita 3700", "mita elfu tatu mia saba"),
    ("th", "36 เมตร", "สูงสามสิบหกเมตร"),
    ("ko", "3700미터", "삼천칠백 미터"),
    ("ja", "36メートル", "高さは三十六メートルである。"),
    ("zh", "3700米", "三千七百米"),
    ("zh", "1962年6月19日", "一九六二年六月十九日"),
]

UNEQUAL = [
    ("en", "15 April 1912", "It sank on 15 May 1912."),
    ("en", "15 April 1912", "It sank on 14.04.1912."),
    ("en", "15 April 1912", "It sank on 15.05.1912."),
    ("en", "15 April 1912", "It sank on 15.04.1913."),
    ("en", "15 April 1912", "It sank on 15.04."),
    ("en", "1912", "It sank on 15.04.1913."),
    ("th", "1912", "มี 2455 คน"),
    ("ja", "1912年", "明治44年"),
    ("fa", "1912", "سال ۱۲۹۰ خورشیدی"),
    ("en", "5500", "It costs 55,00."),
    ("en", "5,500", "It costs 55,000."),
    ("en", "5,500", "It costs 5.5 million."),
    ("en", "15", "It costs 1.5."),
    ("en", "130", "It takes 1300."),
    ("en", "6,600 km", "It is 6,600 miles long."),
    ("en", "6,600 km", "It is 4,000 miles long."),
    ("en", "6.6 km", "It is 6,600 km long."),
    ("en", "100 °C", "It boils at 100 °F."),
    ("en", "15.00", "It leaves at 4:15."),
    ("en", "90 minutes", "It takes 1.5 kg."),
    ("en", "Miguel de Cervantes", "J. de Cervantes wrote it."),
    ("en", "Miguel de Cervantes", "M. Delibes wrote it."),
    ("en", "36 metres", "It is thirty-seven metres high."),
    ("en", "36 metres", "It is thirty-six kilometres long."),
    ("en", "3 hours", "It takes three and a half hours."),
    ("en", "3 hours", "It takes three hours and a half."),
    ("en", "2,500 metres", "There are two 500 metre towers."),
    ("fr", "1 mètre", "Un mètre ruban suffit."),
    ("fr", "19 juin 1962", "le dix-huit juin 1962"),
    ("hi", "4 घंटे", "साढ़े चार घंटे"),
    ("ko", "3700미터", "삼천육백 미터"),
    ("zh", "3700米", "三千六百米"),
]


@each_case(("code", "form", "text"), EQUAL)
def test_equal_forms_are_mentioned(code: str, form: str, text: str) -> None:
    assert mentioned((form,), text, code)


@each_case(("code", "form", "text"), UNEQUAL)
def test_unequal_values_are_not_mentioned(code: str, form: str, text: str) -> None:
    assert not mentioned((form,), text, code)


@each_case(
    ("form", "span"),
    [
        ("36 m", "thirty-six metres"),
        ("200 kg", "two hundred kilograms"),
        ("19 May", "nineteenth of May"),
        ("1.5 km", "1,500 m"),
    ],
)
def test_amounts_in_words_are_located(form: str, span: str) -> None:
    text = "Since the nineteenth of May: thirty-six metres, two hundred kilograms, 1,500 m."
    assert [text[o.start : o.end] for o in locate((form,), text, "en")] == [span]


def test_numbers_keep_their_decimals() -> None:
    assert numbers("5,500.00 5.500,00 5 500") == {"5500"}
    assert numbers("130.0 and 1,00,000 and 1.5") == {"130", "100000", "1.5"}
    assert numbers("٥٫٥") == {"5.5"}
    assert numbers("15.00") == {"1500"}  # rather a time


def test_a_number_of_a_name_is_no_day() -> None:
    (stated,) = dates("Apollo 11 in July 1969 landed there.", "en")
    assert (stated.day, stated.month, stated.year) == (None, 7, 1969)
    assert [date.day for date in dates("On 11 July 1969 it landed.", "en")] == [11]


ordinary_dates = st.dates(min_value=date(1500, 1, 1))
MONTHS = list(calendar.month_name)[1:]


@settings(max_examples=examples(200), deadline=None)
@given(ordinary_dates.filter(lambda day: day.year < 2100), ordinary_dates)
def test_a_date_equals_itself_in_every_order_and_no_other(first: date, other: date) -> None:
    month = MONTHS[first.month - 1]
    forms = (
        f"{first.day} {month} {first.year}",
        f"{month} {first.day}, {first.year}",
        f"{first.day:02}.{first.month:02}.{first.year}",
        first.isoformat(),
    )
    for form in forms:
        for text in forms:
            assert mentioned((form,), f"It was on {text}.", "en")
        if other != first:
            assert not mentioned((form,), f"It was on {other.isoformat()}.", "en")


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=30), st.text(max_size=60), st.sampled_from(list(LANGUAGES)))
def test_any_texts_compare(form: str, text: str, code: str) -> None:
    assert mentioned((form,), text, code) in (True, False)
    assert 0 <= mention(form, text, code) <= 1


DIGITS = st.text("0123456789٣५.,:/- 年月日km°CF thousand明治พ.ศ.", max_size=25)


@settings(max_examples=examples(600), deadline=None)
@given(DIGITS, DIGITS, st.sampled_from(["en", "th", "ja", "fa", "hi", "sw", "ko"]))
def test_any_digits_compare(form: str, text: str, code: str) -> None:
    assert mentioned((form,), text, code) in (True, False)
    assert numbers(form) is not None


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_grouped_integers_are_equal_if_they_are_the_same(first: int, other: int) -> None:
    for text in (f"{first:,}", f"{first:,}.0", f"{first:,}".replace(",", ".")):
        assert mentioned((str(first),), text, "en")
        assert mentioned((str(other),), text, "en") == (first == other)
