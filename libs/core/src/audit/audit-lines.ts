import type { AuditEntry } from '../protocol/audit.js';
import { canonicalIfJson, canonicalObject, isLink, parsedJson } from './from-audit-json.js';

const LINE_BREAK = 0x0a;
/** The longest line an entry can have: three bytes for each of its characters, and room for the hash. */
const MOST_BYTES = 1024 * 1024;

/** An entry as a line of an export. */
export function toAuditLine(entry: AuditEntry): string {
  return `${canonicalObject(entry)}\n`;
}

/**
 * The values of an export's lines, read one by one. A line that is not, byte for byte, what the export writes gives undefined: a repeated key, say,
 * would be read by one reader as this and by another as that.
 */
export async function* readAuditLines(chunks: AsyncIterable<Buffer>): AsyncGenerator {
  for await (const line of linesOf(chunks)) yield valueOf(line);
}

/** Split at line breaks only: a text in JSON may hold the other characters that Unicode calls so. */
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
  return isLink(value) && line.equals(Buffer.from(canonicalIfJson(value) ?? '')) ? value : undefined;
}
