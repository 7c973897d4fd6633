/**
 * In a file of its own: an imported enum, or an imported alias, is recorded differently by each
 * compiler.
 */
export enum Priority {
  Low = 'low',
  High = 'high',
}

export type PriorityName = 'low' | 'high';
