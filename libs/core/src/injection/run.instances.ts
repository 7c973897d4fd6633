import { instanceKeyOf } from '../catalog/entity-keys.js';
import type { Tool } from '../protocol/tool.js';

/** What each instance goes by, least recently used first; JSON. */
export type SavedInstances = readonly string[];

/** One run's entity instances in the order of their last use: returned or called. Whether an instance is still there, the toolset knows. */
export class RunInstances {
  private readonly keys: Set<string>;

  constructor(saved: SavedInstances = []) {
    this.keys = new Set(saved);
  }

  /** Notes that a result held the instance, or that a tool of it was called. */
  used(tool: Tool): void {
    const key = instanceKeyOf(tool);
    this.keys.delete(key);
    this.keys.add(key);
  }

  forget(keys: Iterable<string>): void {
    for (const key of keys) this.keys.delete(key);
  }

  /** Least recently used first. */
  oldest(): Iterable<string> {
    return this.keys;
  }

  save(): SavedInstances {
    return [...this.keys];
  }
}
