import { instanceKeyOf } from '../catalog/tool-selection.js';
import type { EntityHandles } from '../contracts/injection.js';
import type { Tool } from '../contracts/tool.js';
import { type Form, list, pair, TEXT } from '../schema/saved-form.js';

const SAFE_INSTANCE_ID = /^[A-Za-z0-9-]+$/;
/** The form of a handle. An id of this form gets a handle, so that no instance is mistaken for another. */
const LOOKS_LIKE_HANDLE = /^h\d+$/i;

/** Handles as JSON: the name of the class with the instance id, and the handle. */
export type SavedHandles = readonly (readonly [string, string])[];

export const SAVED_HANDLES: Form<SavedHandles> = list(pair(TEXT));

/** The names of a run for entity instances. No character of an id is ever stripped: `c-123` and `c123` are two customers. */
export class RunEntityHandles implements EntityHandles {
  private readonly handles: Map<string, string>;

  /** @param saved the handles given so far: each stays with its instance for the whole run, in any process */
  constructor(saved: SavedHandles = []) {
    this.handles = new Map(saved);
  }

  nameOf(type: object, instanceId: string, maxLength: number): string {
    const fits = instanceId.length <= maxLength && SAFE_INSTANCE_ID.test(instanceId);
    return fits && !LOOKS_LIKE_HANDLE.test(instanceId) ? instanceId : this.handleOf(type, instanceId);
  }

  save(): SavedHandles {
    return [...this.handles];
  }

  private handleOf(type: object, instanceId: string): string {
    const key = JSON.stringify(['name' in type ? type.name : '', instanceId]);
    const known = this.handles.get(key);
    if (known !== undefined) return known;
    const handle = `h${this.handles.size + 1}`;
    this.handles.set(key, handle);
    return handle;
  }
}

/** The keys of the instances, least recently used first; JSON. */
export type SavedInstances = readonly string[];

export const SAVED_INSTANCES: Form<SavedInstances> = list(TEXT);

/** The entity instances of a run in the order of their last use: returned or called. The toolset knows which of them still exist. */
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
