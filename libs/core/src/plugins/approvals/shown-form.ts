import type { PreviewChange, ToolLabels } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ShownForm } from '../../contracts/pending.js';
import type { Tool } from '../../contracts/tool.js';
import { canonicalDeclaration, sha256, toJson } from '../../schema/canonical-json.js';

/**
 * Returns the form of a tool to which a person's yes is bound. It is the same in every process, in
 * whatever order the declaration names its parts.
 */
export function shownFormOf({
  spec,
  presentation,
}: Pick<Tool, 'spec' | 'presentation'>): ShownForm {
  const { description, effect, labels, inputSchema, outputSchema } = spec;
  return {
    description,
    effect,
    labels: inOrder(labels),
    schemaHash: sha256(canonicalSchemas([inputSchema, outputSchema ?? null])),
    ...(presentation && { presentation }),
  };
}

/** Hashes the form of a tool, where no difference has to be told. */
export function hashShownForm(tool: Pick<Tool, 'spec' | 'presentation'>): string {
  return sha256(canonicalDeclaration(shownFormOf(tool)));
}

/** Tells whether two forms are the same. One that was never kept is that of no tool. */
export function isSameForm(one: ShownForm | undefined, other: ShownForm | undefined): boolean {
  return (
    one !== undefined &&
    other !== undefined &&
    canonicalDeclaration(one) === canonicalDeclaration(other)
  );
}

/** Returns what differs between two forms, by names for people. */
export function changesOf(before: ShownForm, now: ShownForm): readonly PreviewChange[] {
  const [earlier, later] = [partsOf(before), partsOf(now)];
  const names = [...new Set([...earlier.keys(), ...later.keys()])];
  return names.flatMap((field) => {
    const [was, is] = [earlier.get(field), later.get(field)];
    if (canonicalDeclaration([was]) === canonicalDeclaration([is])) return [];
    return [
      { field, ...(was !== undefined && { before: was }), ...(is !== undefined && { after: is }) },
    ];
  });
}

type Part = NonNullable<PreviewChange['before']>;

function partsOf({
  labels,
  presentation = {},
  schemaHash,
  ...rest
}: ShownForm): ReadonlyMap<string, Part> {
  const parts: readonly (readonly [string, unknown])[] = [
    ...Object.entries(rest),
    ...Object.entries(labels).map(([name, value]) => [`labels.${name}`, value] as const),
    ['schemas', schemaHash],
    ...Object.entries(presentation).map(
      ([name, value]) => [`presentation.${name}`, value] as const,
    ),
  ];
  return new Map(
    parts.flatMap(([name, value]) => (value === undefined ? [] : [[name, jsonOf(value)] as const])),
  );
}

function jsonOf(value: unknown): Part {
  return typeof value === 'object' && value !== null ? (toJson(value) ?? '') : String(value);
}

function inOrder({ decisive, ...labels }: ToolLabels): ToolLabels {
  return { ...labels, ...(decisive && { decisive: decisive.toSorted() }) };
}

/** The canonical text of schemas, in which the order of what is required says nothing. */
function canonicalSchemas(schemas: readonly (JSONSchema7 | null)[]): string {
  const sorted: unknown = JSON.parse(JSON.stringify(schemas), (key, value: unknown) =>
    key === 'required' && Array.isArray(value) ? value.map(String).toSorted() : value,
  );
  return canonicalDeclaration([sorted]);
}
