import type { ContentPart } from '@toolloop/core';
import type { WireObject } from '@toolloop/wire';

type FilePart = Extract<ContentPart, { readonly type: 'file' }>;

const PDF = 'application/pdf';
const IMAGES = new Set<unknown>(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

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
      return toImageBlock(part.url, part.mediaType);
    case 'file':
      return toFileBlock(part);
  }
}

/** The API knows images, PDFs and plain text; of any other text it is told that it is plain. What is none of them it would refuse with the request. */
function toFileBlock({ url, mediaType, name }: FilePart): WireObject {
  const title = name !== undefined && { title: name };
  if (url.startsWith('data:') && isText(mediaType)) {
    return { type: 'document', source: { type: 'text', media_type: 'text/plain', data: textOf(url) }, ...title };
  }
  if (mediaType.startsWith('image/')) return toImageBlock(url, mediaType);
  if (mediaType !== PDF) return notSent(`The file ${name ?? ''}`, mediaType);
  return { type: 'document', source: toSource(url, mediaType), ...title };
}

/** At an address there may be another kind of image than a transcript says, and the provider looks itself. */
function toImageBlock(url: string, mediaType?: string): WireObject {
  const source = toSource(url, mediaType);
  return source.type === 'base64' && !IMAGES.has(source.media_type)
    ? notSent('An image', String(source.media_type))
    : { type: 'image', source };
}

function notSent(what: string, mediaType: string): WireObject {
  return { type: 'text', text: `[${what.trim()}, which could not be sent: it is ${mediaType}.]` };
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
  const named = (type || mediaType).toLowerCase();
  return { type: 'base64', media_type: named === 'image/jpg' ? 'image/jpeg' : named, data: base64 };
}

/** What a `data:` URL holds. Throws for one whose escapes are wrong. */
function readData(url: string): { readonly type: string; readonly base64: string } {
  const comma = url.indexOf(',');
  const [type = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const data = url.slice(comma + 1);
  return { type, base64: parameters.includes('base64') ? data : Buffer.from(decodeURIComponent(data)).toString('base64') };
}
