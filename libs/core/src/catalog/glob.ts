/** Tells whether a text has a `*`, which matches many ids. */
export function isGlob(pattern: string): boolean {
  return pattern.includes('*');
}

/**
 * Matches a declared id with a pattern, in which `*` matches any characters or none. Linear in the
 * text, since a pattern is data and may be hostile.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length)
    return false;
  const end = text.length - last.length;
  let position = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, position);
    if (found < 0 || found + part.length > end) return false;
    position = found + part.length;
  }
  return true;
}
