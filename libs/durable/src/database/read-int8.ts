/** A number where it holds the value, else a bigint: what PGlite makes of it. */
export function readInt8(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}
