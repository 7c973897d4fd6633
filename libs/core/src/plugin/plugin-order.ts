import type { Finding } from '@toolloop/protocol';
import type { PluginDeclaration } from './tool-loop-plugin.decorator.js';

/** Plugins in the order of their hooks, or the circle that leaves them without one. */
export type PluginOrder<Plugin> =
  { readonly ordered: readonly Plugin[] } | { readonly circle: readonly string[] };

/** A plugin as far as its place among the others is concerned. */
export interface Ordered {
  readonly declaration: Pick<PluginDeclaration, 'name' | 'before' | 'after'>;
}

/**
 * Sorts plugins by `before` and `after`. Those between which nothing is declared follow their
 * names, so that no order depends on that of modules.
 */
export function orderPlugins<Plugin extends Ordered>(
  plugins: readonly Plugin[],
): PluginOrder<Plugin> {
  const ordered: Plugin[] = [];
  let left = plugins.toSorted((a, b) => compareNames(a.declaration.name, b.declaration.name));
  while (left.length > 0) {
    const next = left.find((one) => !left.some((other) => other !== one && precedes(other, one)));
    if (!next) return { circle: circleIn(left) };
    ordered.push(next);
    left = left.filter((one) => one !== next);
  }
  return { ordered };
}

/** Returns the names of the plugins that each come before another one of them. */
function circleIn(left: readonly Ordered[]): readonly string[] {
  const leading = left.filter((one) => left.some((other) => other !== one && precedes(one, other)));
  return leading.length < left.length
    ? circleIn(leading)
    : left.map(({ declaration }) => declaration.name);
}

/** The finding about plugins that each come before another one of them. */
export function circleFinding(circle: readonly string[]): Finding {
  return {
    at: `plugin ${circle.join(', ')}`,
    problem: 'Each of these plugins is to come before another one of them.',
    remedy: 'Leave out one "before" or "after" of theirs.',
  };
}

function precedes({ declaration: first }: Ordered, { declaration: second }: Ordered): boolean {
  return (
    first.before?.includes(second.name) === true || second.after?.includes(first.name) === true
  );
}

function compareNames(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
