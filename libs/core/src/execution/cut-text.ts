/** Says what is left out of a text of so many bytes, whose first characters are shown. */
export type CutNote = (bytes: number, shownCharacters: number) => string;

/** For a reader who has no way to the rest. */
const ASK_FOR_LESS: CutNote = (bytes) => `\n[… ${bytes} bytes in all; the middle was left out. Ask for less at a time. …]\n`;

/** The head and the tail of a text that is too long, with a note between them, all within the budget and cut between characters. */
export function cut(text: string, mostBytes: number, noteFor: CutNote = ASK_FOR_LESS): string {
  const bytes = Buffer.byteLength(text);
  if (bytes <= mostBytes) return text;
  const longest = noteFor(bytes, text.length);
  const room = mostBytes - Buffer.byteLength(longest);
  if (room < 0) return headOf(longest, mostBytes);
  const head = headOf(text, Math.ceil(room * 0.75));
  return head + noteFor(bytes, head.length) + tailOf(text, bytes - Math.floor(room * 0.25));
}

/** As many whole characters as fit. */
function headOf(text: string, mostBytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(mostBytes));
  return text.slice(0, read);
}

/** What begins at this byte, or behind the character that it is in the midst of. */
function tailOf(text: string, fromByte: number): string {
  const tail = Buffer.from(text).subarray(fromByte);
  const start = tail.findIndex((byte) => (byte & 0xc0) !== 0x80);
  return start < 0 ? '' : tail.subarray(start).toString('utf8');
}
