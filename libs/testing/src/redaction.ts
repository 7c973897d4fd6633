import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';

/** Returns a text as it may be stored. The same text must always give the same one. */
export type Redact = (text: string) => string;

/** A form, and what is stored in its place; undefined for a text that only looks like it. */
type Form = readonly [form: RegExp, stored: (found: string) => string | undefined];

const secret = (): string => '[secret]';

/**
 * Forms of keys and tokens of providers, clouds and code hosts: a known beginning, and a digit at
 * least, which words have not.
 */
const SECRETS: readonly Form[] = [
  [
    /\b(?:[sprk]k[-_]|gh[opsu]_|github_pat_|glpat-|xox[a-z]-|hf_|npm_)(?=[-\w]*\d)[-\w]{12,}/g,
    secret,
  ],
  [/\b(?:AKIA[0-9A-Z]{12,}|AIza[-\w]{30,})/g, secret],
  [/\bBearer\s+[\w.~+/=-]{8,}/gi, () => 'Bearer [secret]'],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, secret],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g, secret],
];

/** Forms of what leads to a person: addresses of mail, IBANs, card and telephone numbers. */
const PERSONAL: readonly Form[] = [
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, () => 'person@example.com'],
  [/\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/g, () => '[iban]'],
  [/\b\d(?:[ -]?\d){12,18}\b/g, (found) => (isCardNumber(found) ? '[card]' : undefined)],
  [/(?<![\w.])\+\d(?:[ ()/-]?\d){7,14}\b/g, () => '[phone]'],
];

/**
 * Tells whether digits end in the check digit of a card's number, which one number in ten does by
 * chance.
 */
function isCardNumber(text: string): boolean {
  const digits = Array.from(text.replaceAll(/\D/g, ''), Number).toReversed();
  const sum = digits.reduce(
    (before, digit, index) =>
      before + (index % 2 === 0 ? digit : digit > 4 ? 2 * digit - 9 : 2 * digit),
    0,
  );
  return sum % 10 === 0;
}

function without(text: string, forms: readonly Form[]): string {
  return forms.reduce(
    (left, [form, stored]) => left.replace(form, (found) => stored(found) ?? found),
    text,
  );
}

/** Names of fields whose whole value is a secret. */
const SECRET_FIELD =
  /^(?:authorization|cookie|password|passwd|secret|api[-_]?key|access[-_]?token|refresh[-_]?token|client[-_]?secret)$/i;

/**
 * Removes keys, tokens and private keys from a text, by their forms. A secret without one, such as
 * a password in a sentence, stays.
 *
 * @example
 * redactSecrets('Use sk-live-0123456789abcdef.') // 'Use [secret].'
 */
export function redactSecrets(text: string): string {
  return without(text, SECRETS);
}

/**
 * Removes secrets and what leads to a person: addresses of mail, IBANs, numbers of cards and
 * telephones. Names and addresses have no form, and stay.
 *
 * @example
 * redactPersonal('Write to ann@acme.test.') // 'Write to person@example.com.'
 */
export function redactPersonal(text: string): string {
  return without(redactSecrets(text), PERSONAL);
}

/**
 * Redacts every text of a value, and fields such as `password` whole. JSON within a text is
 * redacted as what it says.
 */
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
