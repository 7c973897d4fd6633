import { referencesIn } from './call-arguments.js';
import type { Pack, PlannedCall } from './pack.js';

const VECTOR = /⟦vec:([^⟧]*)⟧/g;

/**
 * What is wrong with a pack whose shape is right: names that name nothing. Each begins with `#` and
 * a JSON pointer.
 */
export function packProblems(pack: Pack): string[] {
  const { world, tools, userTasks, injections, vectors } = pack;
  const taskIds = userTasks.map(({ id }) => id);
  return [
    ...duplicates('/tools', tools),
    ...duplicates('/userTasks', userTasks),
    ...duplicates('/injections', injections),
    ...tools.flatMap(({ does: { table } }, index) =>
      missing(`/tools/${index}/does/table`, table, 'table', Object.keys(world)),
    ),
    ...vectorsIn(world).flatMap(({ at, vector }) =>
      missing(at, vector, 'vector', Object.keys(vectors)),
    ),
    ...userTasks.flatMap(({ sees }, task) =>
      sees.flatMap((vector, index) =>
        missing(`/userTasks/${task}/sees/${index}`, vector, 'vector', Object.keys(vectors)),
      ),
    ),
    ...userTasks.flatMap(({ calls }, index) =>
      callProblems(`/userTasks/${index}/calls`, calls, pack),
    ),
    ...injections.flatMap(({ calls }, index) =>
      callProblems(`/injections/${index}/calls`, calls, pack),
    ),
    ...injections.flatMap(({ tasks = [] }, injection) =>
      tasks.flatMap((task, index) =>
        missing(`/injections/${injection}/tasks/${index}`, task, 'user task', taskIds),
      ),
    ),
  ];
}

function callProblems(at: string, calls: readonly PlannedCall[], { tools }: Pack): string[] {
  const ids = tools.map(({ id }) => id);
  return calls.flatMap(({ tool, args }, index) => {
    const earlier = calls.slice(0, index).flatMap(({ as }) => as ?? []);
    const known = ['prompt', ...earlier];
    return [
      ...missing(`${at}/${index}/tool`, tool, 'tool', ids),
      ...referencesIn(args).flatMap(({ result }) =>
        missing(`${at}/${index}/args`, result, 'earlier result', known),
      ),
    ];
  });
}

function vectorsIn(world: Pack['world']): { readonly at: string; readonly vector: string }[] {
  return Object.entries(world).flatMap(([table, rows]) =>
    rows.flatMap((row, index) =>
      [...JSON.stringify(row).matchAll(VECTOR)].map(([, vector = '']) => ({
        at: `/world/${table}/${index}`,
        vector,
      })),
    ),
  );
}

function missing(at: string, name: string, kind: string, known: readonly string[]): string[] {
  return known.includes(name)
    ? []
    : [`#${at}: there is no ${kind} "${name}". Known: ${known.join(', ') || 'none'}.`];
}

function duplicates(at: string, named: readonly { readonly id: string }[]): string[] {
  return named.flatMap(({ id }, index) =>
    named.findIndex((other) => other.id === id) < index
      ? [`#${at}/${index}/id: "${id}" is there twice.`]
      : [],
  );
}
