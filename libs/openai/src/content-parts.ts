import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

/**
 * Collects the parts of a content while they stream: Mistral's reasoning models think in parts of
 * the content, and want these back in their places.
 */
export class ContentParts {
  private readonly pieces: ContentPiece[] = [];

  takeText(text: string): void {
    const last = this.pieces.at(-1);
    if (last?.type === 'text') last.length += text.length;
    else if (text !== '') this.pieces.push({ type: 'text', length: text.length });
  }

  takeThought(part: WireObject, text: string): void {
    const last = this.pieces.at(-1);
    if (last?.type !== 'thinking' || last.fields.closed === true)
      this.pieces.push({ type: 'thinking', fields: part, text });
    else
      this.pieces[this.pieces.length - 1] = {
        ...last,
        fields: { ...last.fields, ...part },
        text: last.text + text,
      };
  }

  /** Returns the parts; undefined where the content is text alone. */
  finish(): readonly WireObject[] | undefined {
    if (this.pieces.every(({ type }) => type === 'text')) return undefined;
    return this.pieces.map((piece) =>
      piece.type === 'text'
        ? { ...piece }
        : { ...piece.fields, thinking: [{ type: 'text', text: piece.text }] },
    );
  }
}

/**
 * A part of an answer's content: text, of which only the length is kept since its words are in the
 * message, or thinking as it came.
 */
type ContentPiece =
  | { readonly type: 'text'; length: number }
  | { readonly type: 'thinking'; readonly fields: WireObject; text: string };

/** Returns the texts of the thinking in a part of a content; none for any other part. */
export function thoughtsIn({ thinking }: WireObject): readonly string[] {
  const thoughts = Array.isArray(thinking)
    ? wireObjectsIn(thinking).map(({ text }) => text)
    : [thinking];
  return thoughts.filter((text) => typeof text === 'string');
}

/**
 * Writes a content in the parts that it came in; undefined where the text is no longer the one of
 * which they are.
 */
export function contentIn(
  parts: readonly WireObject[],
  content: string,
): readonly WireObject[] | undefined {
  const length = parts.reduce((sum, part) => sum + lengthOf(part), 0);
  if (length !== content.length) return undefined;
  let at = 0;
  return parts.flatMap((part) => {
    if (part.type === 'thinking') return [part];
    const text = content.slice(at, (at += lengthOf(part)));
    return text === '' ? [] : [{ type: 'text', text }];
  });
}

function lengthOf({ type, length }: WireObject): number {
  return type === 'text' && typeof length === 'number' ? length : 0;
}

/**
 * Adds the chunks of blocks that LiteLLM streams in the form of Anthropic's: the text of a block is
 * joined until its signature comes.
 */
export function withChunks(blocks: readonly WireObject[], chunks: unknown): readonly WireObject[] {
  const known = [...blocks];
  for (const chunk of wireObjectsIn(chunks)) {
    const last = known.at(-1);
    const isSame =
      last?.type === 'thinking' && chunk.type === 'thinking' && !hasText(last.signature);
    known.splice(isSame ? -1 : known.length, isSame ? 1 : 0, isSame ? joined(last, chunk) : chunk);
  }
  return known;
}

function joined(block: WireObject, chunk: WireObject): WireObject {
  const thinking = [block.thinking, chunk.thinking]
    .filter((text) => typeof text === 'string')
    .join('');
  return { ...block, thinking, ...(hasText(chunk.signature) && { signature: chunk.signature }) };
}

function hasText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/**
 * Merges the extra content of a message's deltas, field by field of each vendor. Content that marks
 * a delta as a thought describes that delta alone.
 */
export function mergedExtra(before: WireObject, now: unknown): WireObject {
  if (!isWireObject(now)) return before;
  const entries = Object.entries(now).filter(
    ([, value]) => !isWireObject(value) || value.thought !== true,
  );
  return {
    ...before,
    ...Object.fromEntries(entries.map(([name, value]) => [name, mergedValue(before[name], value)])),
  };
}

function mergedValue(before: unknown, now: unknown): unknown {
  return isWireObject(before) && isWireObject(now) ? { ...before, ...now } : now;
}
