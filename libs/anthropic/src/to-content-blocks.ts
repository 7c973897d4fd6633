import type { ContentPart } from '@toolloop/core';
import type { WireObject } from '@toolloop/wire';

type FilePart = Extract<ContentPart, { readonly type: 'file' }>;

/** The blocks of a content. The API refuses a text in which nothing stands, so it is left out. */
export function toContentBlocks(content: string | readonly ContentPart[]): readonly WireObject[] {
  const parts: readonly ContentPart[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return parts.filter((part) => part.type !== 'text' || !isBlank(part.text)).map(toContentBlock);
}

export function isBlank(text: string): boolean {
  return text.trim() === '';
}

function toContentBlock(part: ContentPart): WireObject {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image', source: toSource(part.url, part.mediaType) };
    case 'file':
      return toFileBlock(part);
  }
}

/** The API knows images, PDFs and plain text; of any other text it is told that it is plain. */
function toFileBlock({ url, mediaType, name }: FilePart): WireObject {
  if (mediaType.startsWith('image/')) return { type: 'image', source: toSource(url, mediaType) };
  const isTextHere = url.startsWith('data:') && isText(mediaType);
  const source = isTextHere ? { type: 'text', media_type: 'text/plain', data: textOf(url) } : toSource(url, mediaType);
  return { type: 'document', source, ...(name !== undefined && { title: name }) };
}

function isText(mediaType: string): boolean {
  return mediaType.startsWith('text/') || /[/+](json|xml|yaml)\b/.test(mediaType);
}

function textOf(dataUrl: string): string {
  return Buffer.from(readData(dataUrl).base64, 'base64').toString();
}

/** The provider fetches a web address itself; what a `data:` URL holds is sent along. */
function toSource(url: string, mediaType = 'image/png'): WireObject {
  if (!url.startsWith('data:')) return { type: 'url', url };
  const { type, base64 } = readData(url);
  return { type: 'base64', media_type: type || mediaType, data: base64 };
}

/** What a `data:` URL holds. Throws for one whose escapes are wrong. */
function readData(url: string): { readonly type: string; readonly base64: string } {
  const comma = url.indexOf(',');
  const [type = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const data = url.slice(comma + 1);
  return { type, base64: parameters.includes('base64') ? data : Buffer.from(decodeURIComponent(data)).toString('base64') };
}
