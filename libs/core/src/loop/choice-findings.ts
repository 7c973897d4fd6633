import { closestTo } from '../catalog/suggestion.js';
import type { Finding } from '../protocol/errors.js';
import type { LoopRequest } from '../protocol/loop-request.js';

/** The options of a request that are one of a few words. */
const CHOICES = {
  approvals: ['suspend', 'wait', 'deny'],
  onToolError: ['continue', 'halt', 'retry'],
  onForbidden: ['continue', 'halt'],
  surface: ['auto', 'named', 'grouped', 'dispatcher'],
  toolChoice: ['auto', 'none', 'required'],
} as const satisfies { readonly [Option in keyof LoopRequest]?: readonly LoopRequest[Option][] };

/** A word that is none of an option's would be taken for one of them. */
export function choiceFindings(options: Readonly<Record<string, unknown>>, at: string): Finding[] {
  return Object.entries(CHOICES).flatMap(([name, known]: [string, readonly string[]]) => {
    const value = options[name];
    if (name === 'toolChoice' && isForced(value)) return [];
    if (value === undefined || known.some((one) => one === value)) return [];
    const closest = typeof value === 'string' ? closestTo(value, known, 1) : [];
    const remedy = `Did you mean "${closest.join('') || known.join('", "')}"?`;
    return [{ at, problem: `The option "${name}" is ${JSON.stringify(value)}.`, remedy }];
  });
}

function isForced(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'tool' in value && typeof value.tool === 'string';
}
