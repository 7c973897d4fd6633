import { MIMEType } from 'node:util';
import { ToolError } from '@toolloop/core';

/** The type of a page, markup or plain text, and the charset of its header. */
export interface PageContent {
  readonly kind: 'html' | 'text';
  readonly charset: string | undefined;
}

const HTML: ReadonlySet<string> = new Set(['text/html', 'application/xhtml+xml']);
const TEXT = /^text\/|^application\/(json|xml|javascript|yaml)$|\+(json|xml)$/;

/**
 * Reads a `content-type` header.
 *
 * @throws ToolError if the type is not text
 */
export function contentOf(header: string | undefined): PageContent {
  const type = parsed(header);
  if (!type)
    throw new ToolError(
      'The page does not say what it contains, so it cannot be read. Use another source.',
    );
  const charset = type.params.get('charset') ?? undefined;
  if (HTML.has(type.essence)) return { kind: 'html', charset };
  if (TEXT.test(type.essence)) return { kind: 'text', charset };
  throw new ToolError(
    `The page is ${type.essence}. Only HTML, text, JSON and XML can be read. Look for a page that has it as text.`,
  );
}

function parsed(header: string | undefined): MIMEType | undefined {
  try {
    return header === undefined ? undefined : new MIMEType(header);
  } catch {
    return undefined;
  }
}

/** The number of bytes in which a document names its own charset. */
const DECLARED_CHARSET =
  /<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}["']?([\w-]{1,40})|<\?xml[^>]{0,100}?encoding\s{0,8}=\s{0,8}["']([\w-]{1,40})/i;

/**
 * Decodes as browsers do: by byte order mark, header, the document's own charset, else UTF-8.
 * Invalid bytes become U+FFFD.
 */
export function decode(bytes: Buffer, charset: string | undefined): string {
  const [, meta, xml] = DECLARED_CHARSET.exec(bytes.toString('latin1', 0, 1024)) ?? [];
  const declared = meta ?? xml;
  // A document that could be read this far is no UTF-16, whatever it says.
  const own = declared !== undefined && /^utf-?16/i.test(declared) ? 'utf-8' : declared;
  const label = byteOrderMark(bytes) ?? charset ?? own ?? 'utf-8';
  return (decoderFor(label) ?? new TextDecoder()).decode(bytes);
}

function byteOrderMark(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : undefined;
}

function decoderFor(label: string): TextDecoder | undefined {
  try {
    return new TextDecoder(label);
  } catch {
    return undefined;
  }
}
