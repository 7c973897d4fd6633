import type { JSONSchema7 } from 'json-schema';
import type { Finding } from '../protocol/errors.js';
import type { ToolLabels } from '../protocol/tool.js';
import { nearestName } from '../findings/nearest-name.js';
import { unknownOptions, type OptionNames } from '../findings/unknown-options.js';

/** The values each label takes. */
const VALUES = {
  returns: ['trusted', 'untrusted'],
  reads: ['public', 'private'],
  egress: [true, false],
} as const satisfies { readonly [Label in 'returns' | 'reads' | 'egress']: readonly ToolLabels[Label][] };
const LABELS: OptionNames<ToolLabels> = { returns: true, reads: true, egress: true, accepts: true, decisive: true };
const ACCEPTED: OptionNames<NonNullable<ToolLabels['accepts']>> = { untrusted: true, private: true };

/** What is wrong with a tool's labels. A slip in one of them would widen or narrow what policy lets through, and nobody would notice. */
export function labelFindings(at: string, labels: Partial<ToolLabels> = {}, inputSchema: JSONSchema7 = {}): Finding[] {
  return [
    ...unknownOptions(labels, LABELS, at, 'label'),
    ...Object.entries(VALUES).flatMap(([label, values]) => valueFindings(at, label, Reflect.get(labels, label), values)),
    ...acceptsFindings(at, labels.accepts),
    ...decisiveFindings(at, labels.decisive, Object.keys(inputSchema.properties ?? {})),
  ];
}

function acceptsFindings(at: string, accepts: unknown = {}): Finding[] {
  if (typeof accepts !== 'object' || accepts === null)
    return [{ at, problem: 'Its label "accepts" is not an object.', remedy: 'Give { untrusted: true }, { private: true } or both.' }];
  return [
    ...unknownOptions(accepts, ACCEPTED, at, 'label accepts'),
    ...Object.keys(ACCEPTED).flatMap((name) => valueFindings(at, `accepts.${name}`, Reflect.get(accepts, name), VALUES.egress)),
  ];
}

/** An argument that no call has decides nothing, and a call would be traced by the others alone. */
function decisiveFindings(at: string, decisive: unknown, known: readonly string[]): Finding[] {
  if (decisive === undefined) return [];
  const names: readonly unknown[] | undefined = Array.isArray(decisive) ? decisive : undefined;
  if (!names) return [{ at, problem: 'Its label "decisive" is not a list.', remedy: 'List the names of arguments.' }];
  return names
    .map(String)
    .filter((name) => !known.includes(name))
    .map((name) => ({
      at,
      problem: `Its label "decisive" names "${name}", and the tool has no such argument.`,
      remedy: nearestName(name, known),
    }));
}

function valueFindings(at: string, label: string, value: unknown, values: readonly unknown[]): Finding[] {
  if (value === undefined || values.includes(value)) return [];
  const problem = `Its label "${label}" is ${JSON.stringify(value)}.`;
  return [{ at, problem, remedy: `Give ${values.map((one) => JSON.stringify(one)).join(' or ')}.` }];
}
