import type { Message, ModelOptions, ToolSpec } from '@toolloop/protocol';

/**
 * A JSON object made of fields of which some are JSON text or its bytes already. What is in bytes
 * is not encoded again.
 */
export class RequestBody {
  private readonly fields = new Map<string, readonly JsonPart[]>();

  setJson(name: string, ...parts: readonly JsonPart[]): void {
    this.fields.set(name, parts);
  }

  /** Sets each field whose value is not undefined. */
  setAll(values: Readonly<Record<string, unknown>>): void {
    for (const name in values)
      if (values[name] !== undefined) this.fields.set(name, [JSON.stringify(values[name])]);
  }

  /**
   * Sets the user's own fields as they are. `undefined` removes a field, for servers that refuse
   * one of ours.
   */
  merge(own: ModelOptions['provider'] = {}): void {
    for (const [name, value] of Object.entries(own))
      if (value === undefined) this.fields.delete(name);
    this.setAll(own);
  }

  /** Writes the bytes of the object: those that are kept are copied once, and not encoded again. */
  toBytes(): Buffer<ArrayBuffer> {
    const parts: JsonPart[] = [];
    for (const [name, value] of this.fields)
      parts.push(`${parts.length === 0 ? '{' : ','}${JSON.stringify(name)}:`, ...value);
    parts.push(parts.length === 0 ? '{}' : '}');
    return Buffer.concat(piecesOf(parts));
  }

  toJson(): string {
    return this.toBytes().toString();
  }
}

/** Returns a warning for each of these options that is set though the API does not have it. */
export function ignoredOptions<Options extends object>(
  options: Options,
  unknown: readonly (keyof Options & string)[],
  api: string,
): readonly string[] {
  const given = unknown.filter((name) => options[name] !== undefined);
  return given.map((name) => `The option "${name}" is not sent: ${api} has no such option.`);
}

/** A piece of a JSON text: what is kept has its bytes already. */
export type JsonPart = string | Uint8Array;

/** Makes bytes of texts, of neighbouring ones together. */
function piecesOf(parts: readonly JsonPart[]): readonly Uint8Array[] {
  const pieces: Uint8Array[] = [];
  let text = '';
  for (const part of parts) {
    if (typeof part === 'string') text += part;
    else {
      if (text !== '') pieces.push(Buffer.from(text));
      pieces.push(part);
      text = '';
    }
  }
  if (text !== '') pieces.push(Buffer.from(text));
  return pieces;
}

/** Writes a list of which each item begins with a comma. */
export function listOf(items: readonly JsonPart[]): readonly JsonPart[] {
  const [first = ',', ...rest] = items;
  return ['[', typeof first === 'string' ? first.slice(1) : first.subarray(1), ...rest, ']'];
}

interface Encoding {
  /** The settings that the bytes depend on beside the object itself. */
  readonly key: string;
  readonly bytes: Uint8Array;
}

/**
 * Encoded JSON by the identity of its source. Messages and tools are immutable and stay the same
 * objects from step to step, so each is encoded once, however long the run, and keeps its bytes,
 * which the provider's prompt cache needs.
 */
export class EncodedOnce<T extends object> {
  private readonly known = new WeakMap<T, Encoding>();

  bytes(source: T, key: string, encode: () => string): Uint8Array {
    const known = this.known.get(source);
    if (known?.key === key) return known.bytes;
    const bytes = Buffer.from(encode());
    this.known.set(source, { key, bytes });
    return bytes;
  }
}

/**
 * The bytes of the text that was encoded last, such as the instructions of a run, which are the
 * same in each of its requests.
 */
export class LastText {
  private last: { readonly text: string; readonly bytes: Uint8Array } | undefined;

  bytes(text: string, encode: () => string): Uint8Array {
    if (this.last?.text !== text) this.last = { text, bytes: Buffer.from(encode()) };
    return this.last.bytes;
  }
}

/**
 * Pieces of this size are sent as they are; smaller ones are joined, so that a long list has few.
 */
const LARGE_PIECE = 64 * 1024;

/**
 * Bytes that grow at their end. Small pieces are joined with those before them as soon as they are
 * half as long together, so that of many pieces a few are left and each byte is copied a few times,
 * however many there are.
 */
export class GrowingBytes {
  readonly pieces: Uint8Array[] = [];

  add(parts: readonly JsonPart[]): void {
    for (const part of parts) this.append(typeof part === 'string' ? Buffer.from(part) : part);
  }

  private append(piece: Uint8Array): void {
    const { pieces } = this;
    let [from, length] = [pieces.length, piece.length];
    const before = (): number => pieces[from - 1]?.length ?? Infinity;
    while (length < LARGE_PIECE && before() < Math.min(2 * length, LARGE_PIECE)) {
      length += before();
      from -= 1;
    }
    if (from === pieces.length) pieces.push(piece);
    else pieces.push(Buffer.concat([...pieces.splice(from), piece]));
  }
}

/**
 * The writing of a transcript in the format of one API. Each message is taken once, behind those
 * before it.
 */
export interface TranscriptWriter {
  take(message: Message): void;
}

/**
 * The transcripts that were written last, by their first message. The next request of a run has the
 * messages of the one before and some more, so that only these are written. A transcript that was
 * changed in the middle is written anew.
 */
export class Transcripts<Writer extends TranscriptWriter> {
  private readonly known = new WeakMap<
    Message,
    { readonly reader: string; readonly messages: Message[]; readonly writer: Writer }
  >();

  /**
   * Returns the writer that has taken exactly these messages.
   *
   * @param reader names the model, the server and all else that a writer writes for
   * @param begin creates the writer of a transcript
   * @throws what the writer of a message throws
   */
  written(messages: readonly Message[], reader: string, begin: () => Writer): Writer {
    const [first] = messages;
    const last = first && this.known.get(first);
    const transcript =
      last?.reader === reader && beginsWith(messages, last.messages)
        ? last
        : { reader, messages: [], writer: begin() };
    try {
      for (const message of messages.slice(transcript.messages.length)) {
        transcript.writer.take(message);
        transcript.messages.push(message);
      }
    } catch (error) {
      // One that cannot be written to its end is not known.
      if (first) this.known.delete(first);
      throw error;
    }
    if (first && transcript !== last) this.known.set(first, transcript);
    return transcript.writer;
  }
}

function beginsWith<T>(list: readonly T[], start: readonly T[]): boolean {
  return start.length <= list.length && start.every((item, index) => item === list[index]);
}

/**
 * Writes tools in the format of one API. Labels, effect and the like stay here: the model sees
 * description and input schema. An unchanged toolset costs nothing, also in the next run, and one
 * that grew keeps the bytes of its earlier tools.
 */
export class ToolEncoder {
  private readonly tools = new EncodedOnce<ToolSpec>();
  private readonly toolsets = new WeakMap<readonly ToolSpec[], readonly Uint8Array[]>();
  /** The toolset from which others grow, by its first tool. */
  private readonly bases = new WeakMap<
    ToolSpec,
    { readonly specs: readonly ToolSpec[]; readonly bytes: Uint8Array }
  >();

  constructor(private readonly toTool: (spec: ToolSpec) => object) {}

  /** Writes the tools as items of a list, each with a comma before it. */
  toItems(specs: readonly ToolSpec[]): readonly Uint8Array[] {
    const known = this.toolsets.get(specs);
    if (known !== undefined) return known;
    const items = this.encoded(specs);
    this.toolsets.set(specs, items);
    return items;
  }

  /** Writes a tool with a comma before it. */
  toItem(spec: ToolSpec): Uint8Array {
    return this.tools.bytes(spec, '', () => `,${JSON.stringify(this.toTool(spec))}`);
  }

  private encoded(specs: readonly ToolSpec[]): readonly Uint8Array[] {
    const [first] = specs;
    if (first === undefined) return [];
    const base = this.bases.get(first);
    if (base && beginsWith(specs, base.specs)) {
      const added = specs.slice(base.specs.length);
      return added.length === 0 ? [base.bytes] : [base.bytes, this.joined(added)];
    }
    const bytes = this.joined(specs);
    this.bases.set(first, { specs, bytes });
    return [bytes];
  }

  private joined(specs: readonly ToolSpec[]): Uint8Array {
    return Buffer.concat(specs.map((spec) => this.toItem(spec)));
  }
}
