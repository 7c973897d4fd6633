import {
  type Finding,
  isRecord,
  type JsonObject,
  type ToolEffect,
  type ToolLabels,
  type ToolOrigin,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ToolCallContext } from '../../contracts/tool-call.js';
import type { ToolSettings } from '../../contracts/tool-settings.js';
import type { Tool } from '../../contracts/tool.js';
import { inWords } from '../../findings/options.js';
import { canonicalDeclaration, sha256, toJsonObject } from '../../schema/canonical-json.js';
import { compileReveal } from '../../schema/reveal.js';
import { sourceNullRemoval } from '../../schema/optional-nulls.js';
import { compileSchemaInput } from '../../schema/tool-input.js';

/**
 * Makes a tool for a `ToolSource` to hand over: its arguments are held against their JSON Schema
 * and passed on as they are.
 *
 * @example
 * sourceTool({
 *   id: 'github__createIssue',
 *   origin: this.origin,
 *   description,
 *   inputSchema,
 *   invoke: (args, { signal }) => this.server.call('createIssue', args, signal),
 * });
 */
export function sourceTool(declaration: SourceToolDeclaration): Tool {
  const {
    id,
    description,
    inputSchema,
    outputSchema,
    effect = 'external_side_effect',
    labels,
    reveal = 'all',
    invoke,
    ...rest
  } = declaration;
  const { input } = compileSchemaInput({ at: id, reserved: [], schema: inputSchema });
  return {
    ...rest,
    spec: {
      id,
      declaredId: id,
      description,
      inputSchema,
      ...(outputSchema && { outputSchema }),
      effect,
      labels: { returns: 'untrusted', reads: 'private', egress: true, ...labels },
      redaction: { kind: 'reveal', fields: reveal },
      schemaHash: sha256(
        canonicalDeclaration({ description, inputSchema, ...(outputSchema && { outputSchema }) }),
      ),
    },
    input: { ...input, normalize: sourceNullRemoval(inputSchema) },
    output: compileReveal(reveal),
    invoke: (args, context) => invoke(isRecord(args) ? toJsonObject(args) : {}, context),
  };
}

/** The declaration of a tool that is known by its JSON Schema alone. */
export interface SourceToolDeclaration
  extends ToolSettings, Pick<Tool, 'origin' | 'canCall' | 'preview' | 'secrets'> {
  readonly id: string;
  readonly description: string;
  readonly inputSchema: JSONSchema7;
  readonly outputSchema?: JSONSchema7;
  /** @default 'external_side_effect' */
  readonly effect?: ToolEffect;
  /** @default private and untrusted, and it lets data out */
  readonly labels?: Partial<ToolLabels>;
  /** The fields of a result that may leave. @default 'all' */
  readonly reveal?: 'all' | readonly string[];
  /** Receives the arguments as plain JSON, once they fit the schema. */
  invoke(this: void, args: JsonObject, context: ToolCallContext): unknown;
}

/** The finding in what a source gives in the place of a tool. */
export function noToolFinding(given: unknown, { source }: ToolOrigin): Finding {
  const remedy =
    'Give what tools() of a ToolSource declares: objects with spec, origin, input, output and invoke.';
  return {
    at: source,
    problem: `Among its tools is ${isRecord(given) ? 'an object that is none' : inWords(given)}.`,
    remedy,
  };
}
