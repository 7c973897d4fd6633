import { type JsonObject, tool } from '@toolloop/core';
import { recordedResult } from '@toolloop/testing';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import type { AttackedTools } from './attack.application.js';
import type { RawTool } from './pack-tools.js';
import type { RecordedTool } from './recorded-data.js';

const PREFIX = 'recorded__';

/**
 * The tools of a recording as an application would declare them. Each answers what was recorded for
 * the call.
 */
export function replayedTools(name: string, tools: readonly RecordedTool[]): AttackedTools {
  const declared = tools.map(
    ({ name: own, description, parameters, effect, labels, untrustedFields: fields }): RawTool =>
      tool<JsonObject>({
        id: `${PREFIX}${own}`,
        description,
        input: parameters,
        effect,
        labels,
        reveal: 'all',
        outputSchema: fieldLabels(fields),
        execute: (_, context) => recordedResult(context),
      }),
  );
  return { name, tools: declared };
}

/** The record of a customer, and all that is theirs, names its owner like this. */
const OWNER = 'user_id';

/**
 * The schema that says who wrote the fields of a result: the application, but for the pointers that
 * name the fields of others. What stands in a customer's record is the customer's.
 */
function fieldLabels(untrusted: readonly string[]): JSONSchema7 {
  const ofOthers = { 'x-toolloop-origin': 'actor', 'x-toolloop-owned-by': OWNER };
  if (untrusted.includes('')) return labelled({}, ofOthers);
  const root = labelled({}, { 'x-toolloop-origin': 'application' });
  return untrusted.reduce(
    (schema, pointer) => withLabel(schema, pointer.split('/').slice(1), ofOthers),
    root,
  );
}

function withLabel(
  schema: JSONSchema7,
  [part, ...others]: readonly string[],
  label: Readonly<Record<string, string>>,
): JSONSchema7 {
  if (part === undefined) return labelled(schema, label);
  const { properties = {}, items, additionalProperties } = schema;
  if (part !== '*')
    return {
      ...schema,
      properties: { ...properties, [part]: withLabel(schemaOf(properties[part]), others, label) },
    };
  const one =
    typeof items === 'object' && !Array.isArray(items) ? items : schemaOf(additionalProperties);
  const each = withLabel(one, others, label);
  return { ...schema, items: each, additionalProperties: each };
}

function labelled(schema: JSONSchema7, label: Readonly<Record<string, string>>): JSONSchema7 {
  return { ...schema, ...label };
}

function schemaOf(given: JSONSchema7Definition | undefined): JSONSchema7 {
  return typeof given === 'object' ? given : {};
}
