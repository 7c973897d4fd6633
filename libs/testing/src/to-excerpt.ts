const LENGTH = 300;

/** A value as one line of a failure's message, cut to 300 characters. */
export function toExcerpt(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > LENGTH ? `${text.slice(0, LENGTH)}…` : text;
}
