import type { Tool } from '../../contracts/tool.js';
import { type Form, list, TEXT } from '../../schema/saved-form.js';
import { instanceKeyOf } from './member-ids.js';

/**
 * The entity instances of a run in the order of their last use: returned or called. The toolset
 * knows which of them still exist.
 */
export class RunInstances {
  private readonly keys: Set<string>;

  constructor(saved: SavedInstances = []) {
    this.keys = new Set(saved);
  }

  /** Records that a result held the instance of a tool, or that the tool was called. */
  used(tool: Tool): void {
    const key = instanceKeyOf(tool);
    this.keys.delete(key);
    this.keys.add(key);
  }

  forget(keys: Iterable<string>): void {
    for (const key of keys) this.keys.delete(key);
  }

  /** Returns the keys, least recently used first. */
  oldest(): Iterable<string> {
    return this.keys;
  }

  save(): SavedInstances {
    return [...this.keys];
  }
}

export const SAVED_INSTANCES: Form<SavedInstances> = list(TEXT);

/** The keys of the instances, least recently used first; JSON. */
export type SavedInstances = readonly string[];
