import type { Type } from '@nestjs/common';
import {
  type AnswerFormat,
  type ArgumentProblem,
  ConfigurationError,
  type Finding,
  type JsonValue,
} from '@toolloop/protocol';
import type { ToolInputCodec } from '../../contracts/tool.js';
import { parseJson } from '../../schema/canonical-json.js';
import { compileDtoInput } from '../../schema/tool-input.js';
import { SchemaValidators } from '../../schema/validators.js';
import { type RunValues, valueForReader } from '../values/value-references.js';

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

/** Some models wrap JSON in a Markdown fence even when told not to. */
function withoutFence(text: string): string {
  return /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
}
