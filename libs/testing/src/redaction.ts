import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';

/** Returns a text as it may be stored. The same text must always give the same one. */
export type Redact = (text: string) => string;

/** Forms of keys and tokens of providers, clouds and code hosts. */
const SECRETS: readonly (readonly [form: RegExp, stored: string])[] = [
  [/\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abeprs]|AKIA|AIza|hf|npm)[-_A-Za-z0-9]{12,}/g, '[secret]'],
  [/\bBearer\s+[A-Za-z0-9._~+/=-]{8,}/gi, 'Bearer [secret]'],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, '[secret]'],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g, '[secret]'],
];

/** Forms of what leads to a person: addresses of mail, IBANs, card and telephone numbers. */
const PERSONAL: readonly (readonly [form: RegExp, stored: string])[] = [
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, 'person@example.com'],
  [/\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/g, '[iban]'],
  [/\b\d(?:[ -]?\d){12,18}\b/g, '[card]'],
  [/(?<![\w.])\+\d(?:[ ()/-]?\d){7,14}\b/g, '[phone]'],
];

/** Names of fields whose whole value is a secret. */
const SECRET_FIELD = /^(?:authorization|cookie|password|passwd|secret|api[-_]?key|access[-_]?token|refresh[-_]?token|client[-_]?secret)$/i;

/**
 * Removes keys, tokens and private keys from a text, by their forms.
 *
 * @example
 * redactSecrets('Use sk-live-0123456789abcdef.') // 'Use [secret].'
 */
export function redactSecrets(text: string): string {
  return SECRETS.reduce((left, [form, stored]) => left.replace(form, stored), text);
}

/**
 * Removes secrets and what leads to a person: addresses of mail, IBANs, numbers of cards and telephones. Names and addresses have no form, and stay.
 *
 * @example
 * redactPersonal('Write to ann@acme.test.') // 'Write to person@example.com.'
 */
export function redactPersonal(text: string): string {
  return PERSONAL.reduce((left, [form, stored]) => left.replace(form, stored), redactSecrets(text));
}

/** Redacts every text of a value, and fields such as `password` whole. JSON within a text is redacted as what it says. */
export function redacted(value: JsonValue, redact: Redact): JsonValue {
  if (typeof value === 'string') return redact(value);
  if (isJsonList(value)) return value.map((one) => redacted(one, redact));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      SECRET_FIELD.test(name) && typeof one === 'string' ? '[secret]' : redacted(one, redact),
    ]),
  );
}
