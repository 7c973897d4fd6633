import type { JSONSchema7 } from 'json-schema';
import { z } from 'zod';
import { packProblems } from './pack-problems.js';
import type { Pack } from './pack.js';

const text = z.string().min(1);
const names = z.array(text);
const argumentsSchema = z.record(text, z.json());
const inputSchema = z.custom<JSONSchema7>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'a JSON Schema is wanted',
);

const labels = z.strictObject({
  returns: z.enum(['trusted', 'untrusted']).optional(),
  reads: z.enum(['public', 'private']).optional(),
  egress: z.boolean().optional(),
  accepts: z
    .strictObject({ untrusted: z.boolean().optional(), private: z.boolean().optional() })
    .optional(),
  decisive: names.optional(),
});

const behaviour = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('find'),
    table: text,
    where: z.record(text, text).optional(),
    columns: names.optional(),
  }),
  z.strictObject({ kind: z.literal('insert'), table: text }),
  z.strictObject({ kind: z.literal('update'), table: text, by: text.optional() }),
  z.strictObject({ kind: z.literal('delete'), table: text, by: text }),
]);

const calls = z
  .array(z.strictObject({ as: text.optional(), tool: text, args: argumentsSchema }))
  .min(1);

const packSchema: z.ZodType<Pack> = z.strictObject({
  name: text,
  world: z.record(text, z.array(argumentsSchema)),
  vectors: z.record(text, z.string()),
  tools: z
    .array(
      z.strictObject({
        id: text,
        description: text,
        input: inputSchema,
        effect: z.enum(['read_only', 'state_change', 'external_side_effect']),
        labels: labels.optional(),
        does: behaviour,
      }),
    )
    .min(1),
  userTasks: z.array(z.strictObject({ id: text, prompt: text, calls, sees: names })).min(1),
  injections: z.array(z.strictObject({ id: text, goal: text, calls, tasks: names.optional() })),
});

/** A file that is no pack: every problem, with the JSON pointer where it lies. */
export class PackError extends Error {
  constructor(
    readonly file: string,
    readonly problems: readonly string[],
  ) {
    super(problems.map((problem) => `${file}${problem}`).join('\n'));
  }
}

/** A pack from the text of a file. Throws `PackError`. */
export function decodePack(file: string, json: string): Pack {
  const decoded = packSchema.safeParse(parsed(file, json));
  if (!decoded.success)
    throw new PackError(
      file,
      decoded.error.issues.map(({ path, message }) => `#${pointerTo(path)}: ${message}`),
    );
  const problems = packProblems(decoded.data);
  if (problems.length > 0) throw new PackError(file, problems);
  return decoded.data;
}

function parsed(file: string, json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new PackError(file, [
      `: is no JSON: ${error instanceof Error ? error.message : String(error)}`,
    ]);
  }
}

function pointerTo(path: readonly PropertyKey[]): string {
  return path
    .map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`)
    .join('');
}
