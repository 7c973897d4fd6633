import type { AuditEntry } from '../../contracts/audit.js';
import { canonicalIfJson, canonicalObject, isLink, parsedJson } from './audit-entry.js';

/** Writes an entry as a line of an export. */
export function toAuditLine(entry: AuditEntry): string {
  return `${canonicalObject(entry)}\n`;
}

const LINE_BREAK = 0x0a;
/**
 * The longest line of an entry, in bytes: three for each of its characters, and room for the hash.
 */
const MOST_BYTES = 1024 * 1024;

/**
 * Reads the entries of an export line by line. A line that differs by a byte from what the export
 * writes gives undefined: two readers could understand a repeated key, for example, differently.
 */
export async function* readAuditLines(chunks: AsyncIterable<Buffer>): AsyncGenerator {
  for await (const line of linesOf(chunks)) yield valueOf(line);
}

/** Splits at `\n` only: a text in JSON may hold the other line breaks of Unicode. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    let start = 0;
    for (let end = bytes.indexOf(LINE_BREAK); end >= 0; end = bytes.indexOf(LINE_BREAK, start)) {
      yield bytes.subarray(start, end);
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (rest.length > MOST_BYTES) break;
  }
  if (rest.length > 0) yield rest;
}

function valueOf(line: Buffer): unknown {
  if (line.length > MOST_BYTES) return undefined;
  const value = parsedJson(line.toString());
  return isLink(value) && line.equals(Buffer.from(canonicalIfJson(value) ?? ''))
    ? value
    : undefined;
}
