import type { AnswerFormat } from '@toolloop/core';
import type { WireObject } from '@toolloop/wire';
import { isExpressible, narrowed, SchemaRoom } from './strict-schema.js';

/** How a request says what form the answer must have: as `output_config.format`, or in words where that cannot express the schema. */
export interface OutputFormat {
  readonly format?: WireObject;
  readonly instruction?: string;
}

const encoded = new WeakMap<AnswerFormat, OutputFormat>();

export function toOutputFormat(answer: AnswerFormat): OutputFormat {
  const known = encoded.get(answer);
  if (known !== undefined) return known;
  const { schema } = answer;
  const isTaken = isExpressible(schema) && new SchemaRoom().admit(schema);
  const output = isTaken ? { format: { type: 'json_schema', schema: narrowed(schema) } } : toInstruction(answer);
  encoded.set(answer, output);
  return output;
}

function toInstruction({ schema }: AnswerFormat): OutputFormat {
  const text = JSON.stringify(schema);
  return { instruction: `Give your final answer as one JSON object and nothing else. It must match this JSON Schema: ${text}` };
}
