import type { Type } from '@nestjs/common';
import {
  type AnswerFormat,
  type ArgumentProblem,
  ConfigurationError,
  type Finding,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from '@toolloop/protocol';
import { parse } from 'jsonriver';
import type { ToolInputCodec } from '../contracts/tool.js';
import { type RunValues, valueForReader } from '../policy/value-references.js';
import { parseJson, toJsonObject } from '../schema/canonical-json.js';
import { compileDtoInput } from '../schema/tool-input.js';
import { SchemaValidators } from '../schema/validators.js';

/** The class an answer must be, compiled once. */
export interface AnswerShape {
  readonly format: AnswerFormat;
  readonly codec: ToolInputCodec;
}

/** A valid answer: the instance for the application, and the JSON for everybody else. */
export interface StructuredOutput {
  readonly output: unknown;
  readonly json: JsonValue;
  /** The JSON with references, for a model that knows texts by them. @default the same */
  readonly modelJson?: JsonValue;
}

/** The structured answer in the model's text, or its problems. */
export type AnswerReading = StructuredOutput | { readonly problems: readonly ArgumentProblem[] };

/**
 * Reads the answers of runs that ask for an `output` class, by the same schema and checks that a
 * tool's input has.
 */
export class StructuredAnswers {
  private readonly shapes = new WeakMap<Type, AnswerShape>();

  constructor(private readonly validators: SchemaValidators) {}

  /** Throws `ConfigurationError` for a class that makes no schema. */
  shapeOf(type: Type): AnswerShape {
    const known = this.shapes.get(type);
    if (known) return known;
    const { input: codec, findings } = compileDtoInput({ at: type.name, type, reserved: [] });
    if (findings.length > 0) throw new ConfigurationError(findings);
    const name = type.name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'answer';
    const shape = { codec, format: { name, schema: codec.schema } };
    this.shapes.set(type, shape);
    return shape;
  }

  /**
   * Reads the answer. `values` are the texts that its model knows by reference: they take the place
   * of the references once the answer is accepted, so that none of them decides whether it is.
   */
  async read(
    shape: AnswerShape,
    text: string,
    values?: Pick<RunValues, 'namedIn'>,
  ): Promise<AnswerReading> {
    const reading = await this.readJson(shape, text);
    if ('problems' in reading || !values || values.namedIn(text).length === 0) return reading;
    const shown = await this.readJson(shape, JSON.stringify(valueForReader(reading.json, values)));
    return 'problems' in shown ? reading : { ...shown, modelJson: reading.json };
  }

  private async readJson({ format, codec }: AnswerShape, text: string): Promise<AnswerReading> {
    const sent = parseJson(withoutFence(text));
    if (sent === undefined || typeof sent !== 'object' || sent === null || Array.isArray(sent))
      return { problems: [{ pointer: '', message: 'must be one JSON object and nothing else' }] };
    const args = codec.normalize(Object.fromEntries(Object.entries(sent)));
    const problems = this.validators.validate(format.schema, args);
    if (problems.length > 0) return { problems };
    const reading = await codec.read(args);
    return 'problems' in reading
      ? reading
      : { output: reading.value, json: jsonOf(reading.value, args) };
  }
}

/** Returns the findings in the class of structured answers. */
export function outputFindings(output: Type | undefined, at: string): Finding[] {
  if (output === undefined) return [];
  const { findings, backtracking = [] } = compileDtoInput({
    at: output.name,
    type: output,
    reserved: [],
  });
  return [...findings, ...backtracking].map(({ at: where, problem, remedy }) => ({
    at: `${at} output ${where}`,
    problem,
    remedy,
  }));
}

/**
 * The instance's JSON; what the model sent, where the instance has none, as with a bigint in it.
 */
function jsonOf(output: unknown, sent: JsonValue): JsonValue {
  try {
    const text: string | undefined = JSON.stringify(output);
    return (text === undefined ? undefined : parseJson(text)) ?? sent;
  } catch {
    return sent;
  }
}

/** Returns the message to the model about an answer that does not fit. */
export function correctionFor(problems: readonly ArgumentProblem[]): string {
  const list = problems
    .map(({ pointer, message }) => `- ${pointer || 'the answer'}: ${message}`)
    .join('\n');
  return `Your answer does not have the required form:\n${list}\nAnswer again, with the JSON object only.`;
}

/**
 * An answer is shown once it has grown by as many characters, and by this part of itself: what is
 * shown of it in all stays below nine times its size.
 */
const SHOWN_CHARACTERS = 32;
const SHOWN_PART = 1 / 8;
/** The text before a JSON object: nothing, or the beginning of a Markdown fence. */
const PREAMBLE = /^\s*(?:```(?:json)?\s*)?(?=\{)/;

/**
 * A structured answer while it is written: an object that only grows. Text that is not the
 * beginning of a JSON object shows nothing.
 */
export class GrowingAnswer {
  private text = '';
  private read = 0;
  private shownAt = SHOWN_CHARACTERS;
  private readonly chunks = new Chunks();
  private values: AsyncIterator<JsonValue> | undefined;
  private next: Promise<IteratorResult<JsonValue> | undefined> | undefined;

  /** Takes more of the text. Undefined where there is nothing new to show. */
  take(text: string): Promise<JsonObject | undefined> | undefined {
    this.text += text;
    return this.text.length < this.shownAt ? undefined : this.grown();
  }

  /** Returns the object with everything that was written, once the text has ended. */
  end(): Promise<JsonObject | undefined> | undefined {
    return this.read < this.text.length ? this.grown() : undefined;
  }

  private async grown(): Promise<JsonObject | undefined> {
    const { length } = this.text;
    this.shownAt = length + Math.max(SHOWN_CHARACTERS, Math.ceil(length * SHOWN_PART));
    if (!this.values) {
      const preamble = PREAMBLE.exec(this.text);
      if (!preamble) return undefined;
      this.read = preamble[0].length;
      this.values = parse(this.chunks);
    }
    const starved = this.chunks.add(this.text.slice(this.read));
    this.read = length;
    let latest: JsonValue | undefined;
    for (;;) {
      this.next ??= this.values.next().catch(() => undefined); // what follows is no JSON
      const result = await Promise.race([this.next, starved]);
      if (!result || result.done) break;
      this.next = undefined;
      latest = result.value;
    }
    // the parser writes on in its own
    return isJsonObject(latest) ? toJsonObject(latest) : undefined;
  }
}

/** Text that comes piece by piece, for a reader that asks for it. */
class Chunks implements AsyncIterableIterator<string> {
  private waiting: ((result: IteratorResult<string>) => void) | undefined;
  private chunk: string | undefined;
  private starve: (() => void) | undefined;

  /** Resolves to nothing as soon as the reader has read it all. */
  add(chunk: string): Promise<undefined> {
    const starved = new Promise<undefined>((resolve) => (this.starve = () => resolve(undefined)));
    if (this.waiting) this.waiting({ value: chunk });
    else this.chunk = chunk;
    this.waiting = undefined;
    return starved;
  }

  next(): Promise<IteratorResult<string>> {
    const { chunk } = this;
    this.chunk = undefined;
    if (chunk !== undefined) return Promise.resolve({ value: chunk });
    this.starve?.();
    return new Promise((resolve) => (this.waiting = resolve));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Some models wrap JSON in a Markdown fence even when told not to. */
function withoutFence(text: string): string {
  return /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
}
