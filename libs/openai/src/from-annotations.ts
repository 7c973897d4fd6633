import { type Citation, isWebAddress } from '@toolloop/protocol';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

/**
 * Reads the citations in the annotations of a message of the responses API, whose text begins at
 * `textAt` in the answer's.
 */
export function fromMessageAnnotations(
  { content }: WireObject,
  textAt: number,
): readonly Citation[] {
  let at = textAt;
  return wireObjectsIn(content).flatMap(({ type, text, annotations }) => {
    const start = at;
    if (type === 'output_text' && typeof text === 'string') at += text.length;
    return wireObjectsIn(annotations).flatMap((annotation) => fromAnnotation(annotation, start));
  });
}

/**
 * Reads the citations in the `annotations` of a chat completion: `{ type: 'url_citation',
 * url_citation: { url, title, start_index, end_index } }`.
 */
export function fromChatAnnotations(annotations: unknown): readonly Citation[] {
  return wireObjectsIn(annotations).flatMap(({ url_citation: citation }) =>
    isWireObject(citation) ? fromAnnotation(citation, 0) : [],
  );
}

/** Reads the addresses of sources, which Perplexity and xAI list beside the choices. */
export function fromSources(sources: unknown): readonly Citation[] {
  return Array.isArray(sources)
    ? sources.flatMap((url: unknown) => (isWebAddress(url) ? { url } : []))
    : [];
}

/**
 * Reads an annotation that cites a URL, a file, or a file that code made. Any other, such as a
 * path, cites nothing.
 */
function fromAnnotation(annotation: WireObject, textAt: number): readonly Citation[] {
  const { url, title, filename, file_id: file, content } = annotation;
  const source = [filename, file].find((value) => typeof value === 'string');
  if (!isWebAddress(url) && typeof source !== 'string') return [];
  return [
    {
      ...(isWebAddress(url) && { url }),
      ...(typeof title === 'string' && title !== '' && { title }),
      ...(typeof source === 'string' && { source }),
      ...(typeof content === 'string' && { quote: content }),
      ...toRange(annotation, textAt),
    },
  ];
}

function toRange(
  { start_index: start, end_index: end }: WireObject,
  textAt: number,
): Pick<Citation, 'start' | 'end'> {
  return isPosition(start) && isPosition(end) && end > start
    ? { start: textAt + start, end: textAt + end }
    : {};
}

function isPosition(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
