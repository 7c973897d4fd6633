import { instanceKeyOf } from '../catalog/entity-keys.js';
import type { Tool } from '../protocol/tool.js';

/** What each instance goes by, and what returned it last: least recently used first; JSON. */
export type SavedInstances = readonly (readonly [string, string])[];

const UNKNOWN = 'the tool that returned it';

/** One run's entity instances in the order of their last use: returned or called. Whether an instance is still there, the toolset knows. */
export class RunInstances {
  private readonly returnedBy: Map<string, string>;

  constructor(saved: SavedInstances = []) {
    this.returnedBy = new Map(saved);
  }

  /** Notes that a result held the instance. */
  returned(tool: Tool, by = UNKNOWN): void {
    this.move(instanceKeyOf(tool), by);
  }

  /** Notes that the instance's tool was called. */
  used(tool: Tool): void {
    const key = instanceKeyOf(tool);
    const by = this.returnedBy.get(key);
    if (by !== undefined) this.move(key, by);
  }

  /** What returned the instance last. */
  sourceOf(tool: Tool): string {
    return this.returnedBy.get(instanceKeyOf(tool)) ?? UNKNOWN;
  }

  forget(keys: Iterable<string>): void {
    for (const key of keys) this.returnedBy.delete(key);
  }

  /** Keys of the instances, least recently used first. */
  keys(): Iterable<string> {
    return this.returnedBy.keys();
  }

  save(): SavedInstances {
    return [...this.returnedBy];
  }

  private move(key: string, by: string): void {
    this.returnedBy.delete(key);
    this.returnedBy.set(key, by);
  }
}
