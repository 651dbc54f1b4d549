import pytest

from eyechart.languages import canonical, find_same, flores_codes, is_main, known, name_of


@pytest.mark.parametrize("code", ["zh", "cn", "zh-CN", "zho_Hans", "ZH_cn"])
def test_chinese_has_one_code(code):
    assert canonical(code) == "zh"


@pytest.mark.parametrize("code", ["ja", "jp", "jpn_Jpan"])
def test_japanese_has_one_code(code):
    assert canonical(code) == "ja"


def test_neighbours_are_not_confused():
    assert canonical("zho_Hant") == "zh-Hant"
    assert canonical("yue_Hant") == "yue_Hant"
    assert find_same("cn", ["zho_Hant", "yue_Hant"]) is None


def test_the_spelling_itself_wins_over_an_alias():
    assert find_same("jp", ["ja", "jp"]) == "jp"
    assert find_same("jpn_Jpan", ["en", "jp"]) == "jp"


def test_an_unknown_code_stands_for_itself():
    assert canonical("xx") == "xx"
    assert name_of("xx") == "xx"
    assert find_same("xx", ["en", "xx"]) == "xx"


def test_english_is_the_main_language_in_every_spelling():
    assert is_main("en")
    assert is_main("eng_Latn")
    assert not is_main("de")


def test_no_spelling_means_two_languages():
    spellings = [code.lower().replace("_", "-") for item in known() for code in (item.code, *item.aliases)]

    assert len(spellings) == len(set(spellings))


def test_all_flores_codes_are_known():
    assert len(flores_codes()) == 201
    assert name_of("deu_Latn") == "German"
