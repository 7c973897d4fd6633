import {
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type PreviewChange,
  type ToolPreview,
  visible,
} from '@toolloop/protocol';
import type { ReadCall } from '../../call/call.js';
import { readInput } from '../../call/read-arguments.js';
import { fromCanonical } from '../../schema/canonical-json.js';
import { compileReveal } from '../../schema/reveal.js';

/**
 * A preview as the ui may see it: bounded, its sentence and names in one line, without the values
 * of the hidden arguments, wherever they stand as words of their own, and with visible escapes for
 * characters that are not seen.
 *
 * @throws TypeError where there is no sentence, or a value has no JSON
 */
export function shownPreview(
  made: unknown,
  args: JsonObject,
  hidden: readonly string[],
): ToolPreview {
  const json = preview.project(typeof made === 'string' ? { sentence: made } : made, 'ui');
  const { sentence, changes } = isJsonObject(json) ? json : {};
  if (typeof sentence !== 'string' || sentence.trim() === '')
    throw new TypeError('A preview is a sentence, or an object that has one.');
  const cover = coverFor(hidden.flatMap((name) => listTexts(args[name])));
  const shown = isJsonList(changes)
    ? changes.map((change) => shownChange(change, cover, hidden))
    : [];
  return { sentence: line(cover(sentence)), ...(shown.length > 0 && { changes: bounded(shown) }) };
}

/** Rebuilds the input for a hook before the call, which must not change what is approved. */
export async function copyOf({ tool, input, options }: ReadCall): Promise<unknown> {
  const reading = await readInput(tool.input, fromCanonical(input.canonical), {
    ...options,
    validation: false,
  });
  if ('value' in reading) return reading.value;
  throw new TypeError('The input could not be rebuilt.');
}

/** The longest sentence, name of a change, and value before or after, in characters. */
const MOST_CHARACTERS = 500;
const MOST_CHANGES = 50;
const REDACTED = '[redacted]';

const preview = compileReveal(['sentence', 'changes']);

/** Makes a text what an approver may read. */
type Cover = (text: string) => string;

/** Takes words out of a text, and then shows what is not seen in it. */
function coverFor(words: readonly string[]): Cover {
  if (words.length === 0) return visible;
  const longestFirst = words
    .toSorted((a, b) => b.length - a.length)
    .map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`));
  const pattern = new RegExp(
    String.raw`(?<![\p{L}\p{N}])(?:${longestFirst.join('|')})(?![\p{L}\p{N}])`,
    'giu',
  );
  return (text) => visible(text.replace(pattern, REDACTED));
}

/** Texts and numbers at any depth. */
function listTexts(value: JsonValue | undefined): string[] {
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(listTexts);
  const text = typeof value === 'string' || typeof value === 'number' ? String(value).trim() : '';
  return text === '' ? [] : [text];
}

function shownChange(change: JsonValue, cover: Cover, hidden: readonly string[]): PreviewChange {
  const { field, before, after } = isJsonObject(change) ? change : {};
  if (typeof field !== 'string') throw new TypeError('A change of a preview has no field.');
  const shown = (value: JsonValue): JsonValue =>
    hidden.includes(field) ? REDACTED : brief(covered(value, cover));
  return {
    field: line(cover(field)),
    ...(before !== undefined && { before: shown(before) }),
    ...(after !== undefined && { after: shown(after) }),
  };
}

function covered(value: JsonValue, cover: Cover): JsonValue {
  if (typeof value === 'string') return cover(value);
  if (typeof value === 'number') return cover(String(value)) === String(value) ? value : REDACTED;
  if (isJsonList(value)) return value.map((item) => covered(item, cover));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [cover(name), covered(item, cover)]),
  );
}

/** Shortens a value that is too long to be read to the beginning of its text. */
function brief(value: JsonValue): JsonValue {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > MOST_CHARACTERS ? cut(text) : value;
}

/** The arguments are a model's words: no line break may make an approver read something else. */
function line(text: string): string {
  return cut(text.replace(LINE_BREAKS, ' ').trim());
}

const LINE_BREAKS = /[\t-\r]+/g;

function cut(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text;
}

/** An approver is told of what is left out. */
function bounded(changes: readonly PreviewChange[]): readonly PreviewChange[] {
  if (changes.length <= MOST_CHANGES) return changes;
  const kept = changes.slice(0, MOST_CHANGES - 1);
  return [...kept, { field: `… and ${changes.length - kept.length} more` }];
}
