"""lakectl's settings: its file, then the environment. lakegc only reads them.

lakegc's own settings, and what wins over what, are in `lakegc_core.config.settings`. No error here quotes a file's
text: it holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, Field

from lakegc_core.config import strict_yaml
from lakegc_core.errors import SettingsError

FILE = ".lakectl.yaml"
NAMED = "LAKECTL_CONFIG_FILE"
"""The variable that names a file in place of the one of the home folder."""
ENDPOINT = "LAKECTL_SERVER_ENDPOINT_URL"
ACCESS_KEY = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_KEY = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"


class Server(BaseModel):
    """The place where lakectl finds lakeFS; empty if nobody said."""

    endpoint_url: str = ""


class Credentials(BaseModel):
    """The credentials by which lakectl gets in; an empty string is a thing nobody set."""

    access_key_id: str = ""
    secret_access_key: str = Field(default="", repr=False)


class LakectlSettings(BaseModel):
    """The part of lakectl's settings that lakegc reads: `server:` and `credentials:`."""

    server: Server = Field(default_factory=Server)
    credentials: Credentials = Field(default_factory=Credentials)


def load_lakectl(env: Mapping[str, str]) -> LakectlSettings:
    """Read the file that LAKECTL_CONFIG_FILE names, else the one in the home folder that `env` names; then lakectl's
    variables, which win.

    That the home folder has no such file is no error. SettingsError if a named file is missing, and for one that cannot
    be read as lakectl's form.
    """
    home, named, found = env.get("HOME") or env.get("USERPROFILE"), env.get(NAMED), LakectlSettings()
    file = Path(named) if named else Path(home) / FILE if home else None
    if file is not None:
        try:
            # BaseLoader keeps every scalar as it is written: a key such as 0123 or 1e5 is a text, not a number.
            found = strict_yaml.load(file, LakectlSettings, yaml.BaseLoader)
        except FileNotFoundError:
            if named:
                raise SettingsError(f"{file} does not exist; it was named by {NAMED}") from None
    found.server.endpoint_url = env.get(ENDPOINT) or found.server.endpoint_url
    found.credentials.access_key_id = env.get(ACCESS_KEY) or found.credentials.access_key_id
    found.credentials.secret_access_key = env.get(SECRET_KEY) or found.credentials.secret_access_key
    return found
