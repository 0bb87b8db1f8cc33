"""Checks of settings, which report a wrong value with the name of its setting."""

from __future__ import annotations

from numbers import Integral, Real

from mirage.errors import SettingError


def check_number(
    name: str,
    value: object,
    least: int = 0,
    *,
    whole: bool = False,
    above: bool = False,
    optional: bool = False,
) -> None:
    """Raise a ``SettingError`` if a setting is not a number that is large enough.

    Args:
        name: Name of the setting.
        value: Value of the setting.
        least: The least valid value.
        whole: Whether the number must be whole.
        above: Whether the number must be above ``least``.
        optional: Whether ``None`` is valid too.

    Example:
        >>> check_number("retries", None, whole=True)
        Traceback (most recent call last):
        mirage.errors.SettingError: retries must be a whole number of at least 0, got None
    """
    if value is None and optional:
        return
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not (is_number and value >= least) or (above and value == least):  # type: ignore[operator]
        kind = f"{'whole ' if whole else ''}number {'above' if above else 'of at least'} {least}"
        raise SettingError(
            f"{name} must be a {kind}{' or None' if optional else ''}, got {value!r}"
        )
