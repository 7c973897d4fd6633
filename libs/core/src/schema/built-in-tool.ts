import type { ToolLabels, ToolSpec } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { Tool } from '../contracts/tool.js';
import { canonicalDeclaration, sha256 } from './canonical-json.js';
import { compileSchemaInput } from './tool-input.js';

/**
 * Makes the part of such a tool that is the same in every run. Its projection says what of a result
 * is shown.
 */
export function builtInTool({
  id,
  description,
  inputSchema,
  labels = WORST,
  outputSchema,
}: BuiltInDeclaration): Pick<Tool, 'spec' | 'origin' | 'input'> {
  const spec = Object.freeze<ToolSpec>({
    id,
    declaredId: id,
    description,
    inputSchema,
    ...(outputSchema && { outputSchema }),
    effect: 'read_only',
    labels,
    redaction: { kind: 'reveal', fields: 'all' },
    schemaHash: sha256(canonicalDeclaration({ description, inputSchema })),
  });
  return {
    spec,
    origin: { source: 'toolloop', trusted: true },
    input: compileSchemaInput({ at: id, reserved: [], schema: inputSchema }).input,
  };
}

/** The declaration of a read that Toolloop itself offers to models. */
interface BuiltInDeclaration {
  readonly id: string;
  readonly description: string;
  readonly inputSchema: JSONSchema7;
  /** @default those of a result that may repeat whatever a stranger said to someone in private */
  readonly labels?: ToolLabels;
  /**
   * The form of its results, which says who wrote which field. @default the labels hold for all of
   * a result
   */
  readonly outputSchema?: JSONSchema7;
}

const WORST: ToolLabels = { returns: 'untrusted', reads: 'private', egress: false };
