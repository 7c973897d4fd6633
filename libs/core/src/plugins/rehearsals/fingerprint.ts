import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';
import { canonicalJson, sha256 } from '../../schema/canonical-json.js';
import { object, partly, TEXT } from '../../schema/saved-form.js';

/**
 * The hash of a value, and those of its fields by their JSON pointers, to find which of them has
 * changed.
 */
export interface Fingerprint {
  readonly hash: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Takes the fingerprint of a value. */
export function fingerprintOf(value: JsonValue): Fingerprint {
  const fields: Record<string, string> = {};
  note(value, '', fields);
  return { hash: sha256(canonicalJson(value)), fields };
}

function note(value: JsonValue, at: string, fields: Record<string, string>): void {
  const members = isJsonList(value) || isJsonObject(value) ? Object.entries(value) : [];
  const isWhole = members.length === 0 || Object.keys(fields).length + members.length > MOST_FIELDS;
  if (isWhole) fields[at] = sha256(canonicalJson(value)).slice(0, DIGITS);
  else
    for (const [name, member] of members)
      note(member, `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, fields);
}

/**
 * The JSON pointer of the first field that is not as it was; with what was found `again`, of those
 * that are the same each time. Undefined where there is none.
 */
export function changedField(
  before: Fingerprint,
  now: Fingerprint,
  again = now,
): string | undefined {
  if (before.hash === now.hash) return undefined;
  const names = [...new Set([...Object.keys(before.fields), ...Object.keys(now.fields)])];
  return names.find(
    (name) => before.fields[name] !== now.fields[name] && now.fields[name] === again.fields[name],
  );
}

/** More fields are one. */
const MOST_FIELDS = 200;
const DIGITS = 16;

export const FINGERPRINT = object<Fingerprint>({
  hash: TEXT,
  fields: partly<Fingerprint['fields']>(),
});
