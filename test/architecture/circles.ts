/** What each file imports. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * The sizes of the circles of a graph, the largest first: files of which each reaches every other.
 */
export function circlesOf(graph: Graph): readonly number[] {
  const reached = new Map([...graph.keys()].map((file) => [file, reachedFrom(file, graph)]));
  const seen = new Set<string>();
  const sizes: number[] = [];
  for (const [file, targets] of reached) {
    if (seen.has(file) || !targets.has(file)) continue;
    const circle = [...targets].filter((target) => reached.get(target)?.has(file));
    circle.forEach((member) => seen.add(member));
    sizes.push(circle.length);
  }
  return sizes.toSorted((one, other) => other - one);
}

/** The files that a file leads to; itself only where a path leads back. */
function reachedFrom(start: string, graph: Graph): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = [start];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    for (const target of graph.get(file) ?? []) {
      if (!graph.has(target) || reached.has(target)) continue;
      reached.add(target);
      open.push(target);
    }
  }
  return reached;
}
