import { type ContentPart, type MediaPart, type Message, ModelError } from '@toolloop/protocol';
import { sha256 } from '../schema/canonical-json.js';

/** The images and files of a transcript that a model is not sent. */
export interface LeftOutMedia {
  /** The digests of those that a provider refused. */
  readonly refused: ReadonlySet<string>;
  /** The most that a request carries. */
  readonly most: number;
}

type Reason = 'refused' | 'old';

const NOUNS = { image: 'An image', file: 'A file' };
const REASONS = {
  refused: 'which the provider refused',
  old: 'which is no longer shown, since there are newer ones',
};

const digests = new WeakMap<MediaPart, string>();

/**
 * The messages without some of their media by their originals. Messages are immutable and stay the
 * same objects from step to step, and so do these.
 */
const told = new WeakMap<Message, { readonly key: string; readonly message: Message }>();

/**
 * Replaces images and files by notes: those that a provider refused, and the oldest where there are
 * more than a request carries. The oldest go down to half, so that the prompt cache is lost once in
 * a while instead of at every picture; those of the newest question and of the newest step stay,
 * however many they are.
 */
export function withoutMedia(
  messages: readonly Message[],
  { refused, most }: LeftOutMedia,
): readonly Message[] {
  const media = messages.map(mediaIn);
  if (media.every((parts) => parts.length === 0)) return messages;
  const isRefused = (part: MediaPart): boolean => refused.size > 0 && refused.has(digestOf(part));
  const old = oldIn(
    messages,
    (_, index) => media[index]?.filter((part) => !isRefused(part)).length ?? 0,
    most,
  );
  return messages.map((message, index) => {
    const reasons =
      media[index]?.map((part) =>
        isRefused(part) ? 'refused' : old.has(index) ? 'old' : undefined,
      ) ?? [];
    return reasons.every((reason) => reason === undefined) ? message : withNotes(message, reasons);
  });
}

/** Returns the digests of images and files that a provider has refused in a conversation. */
export function refusedIn(messages: readonly Message[]): ReadonlySet<string> {
  return new Set(
    messages.flatMap((message) =>
      message.role === 'assistant' ? (message.refusedMedia ?? []) : [],
    ),
  );
}

/** Returns the digest by which a transcript remembers an image or a file. */
export function digestOf(part: MediaPart): string {
  const digest = digests.get(part) ?? sha256(part.url);
  digests.set(part, digest);
  return digest;
}

/** The statuses with which providers refuse an image or a file. */
const REFUSING = new Set([400, 413, 415, 422]);

/**
 * Returns the images and files that a provider may have refused, the likeliest selection first:
 * those whose address its words name, those that it has not answered to yet, all. None for a
 * failure that they cannot be the reason of.
 */
export function suspectsIn(
  messages: readonly Message[],
  failure: unknown,
): readonly (readonly MediaPart[])[] {
  if (
    !(failure instanceof ModelError) ||
    failure.status === undefined ||
    !REFUSING.has(failure.status)
  )
    return [];
  if (failure.code === 'context_length' || failure.code === 'quota_exceeded') return [];
  const all = messages.flatMap(mediaIn);
  const named = all.filter(({ url }) => !url.startsWith('data:') && failure.message.includes(url));
  const newest = messages
    .slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1)
    .flatMap(mediaIn);
  const selections = [named, newest, all].filter((parts) => parts.length > 0);
  return selections.filter(
    (parts, index) => index === 0 || parts.length !== selections[index - 1]?.length,
  );
}

/**
 * Finds the messages whose media are old, by going through them from the beginning, so that each
 * step and each process comes to the same ones.
 */
function oldIn(
  messages: readonly Message[],
  countOf: (message: Message, index: number) => number,
  most: number,
): ReadonlySet<number> {
  const old = new Set<number>();
  let shown: readonly { readonly index: number; readonly count: number }[] = [];
  let [question, answer] = [-1, -1];
  messages.forEach((message, index) => {
    if (message.role === 'user') question = index;
    if (message.role === 'assistant') answer = index;
    const count = countOf(message, index);
    if (count === 0) return;
    shown = [...shown, { index, count }];
    let total = shown.reduce((sum, one) => sum + one.count, 0);
    if (total <= most) return;
    for (const one of shown) {
      if (one.index === question || one.index > answer || total <= Math.ceil(most / 2)) continue;
      old.add(one.index);
      total -= one.count;
    }
    shown = shown.filter((one) => !old.has(one.index));
  });
  return old;
}

function mediaIn({ role, content }: Message): readonly MediaPart[] {
  return role === 'assistant' || typeof content === 'string'
    ? []
    : content.filter((part) => part.type !== 'text');
}

function withNotes(message: Message, reasons: readonly (Reason | undefined)[]): Message {
  if ((message.role !== 'user' && message.role !== 'tool') || typeof message.content === 'string')
    return message;
  const key = reasons.join();
  const known = told.get(message);
  if (known?.key === key) return known.message;
  const left = reasons.values();
  const content = message.content.map((part) =>
    part.type === 'text' ? part : toNote(part, left.next().value),
  );
  const noted: Message = { ...message, content };
  told.set(message, { key, message: noted });
  return noted;
}

function toNote(part: MediaPart, reason: Reason | undefined): ContentPart {
  return reason === undefined
    ? part
    : { type: 'text', text: `[${NOUNS[part.type]}, ${REASONS[reason]}.]` };
}
