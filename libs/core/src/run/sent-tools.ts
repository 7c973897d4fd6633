import type { ToolPrefix, ToolSpec } from '@toolloop/protocol';
import { sha256 } from '../schema/canonical-json.js';

/**
 * The tools that a run sent with its last model call: a provider's prompt cache holds for as many
 * as stand before the first that changed.
 */
export class SentTools {
  private specs: readonly ToolSpec[] = [];

  /** `hashes` of every beginning of the list, shortest first; JSON. */
  constructor(private hashes: readonly string[] = []) {}

  save(): readonly string[] {
    return this.hashes;
  }

  /** Notes what is sent now, and says what of it is as it was. */
  send(specs: readonly ToolSpec[]): ToolPrefix {
    const before = this.hashes;
    if (specs === this.specs)
      return { hash: before.at(-1) ?? '', tools: specs.length, unchanged: before.length };
    this.hashes = this.hashesOf(specs);
    this.specs = specs;
    const changed = this.hashes.findIndex((hash, index) => hash !== before[index]);
    const unchanged = changed < 0 ? this.hashes.length : changed;
    return { hash: this.hashes.at(-1) ?? '', tools: specs.length, unchanged };
  }

  private hashesOf(specs: readonly ToolSpec[]): readonly string[] {
    const known = chains.get(specs);
    if (known) return known;
    let isAsBefore = true;
    let after = '';
    const hashes = specs.map((spec, index) => {
      isAsBefore &&= spec === this.specs[index];
      after = isAsBefore ? (this.hashes[index] ?? '') : hashOf(spec, after);
      return after;
    });
    chains.set(specs, hashes);
    return hashes;
  }
}

/**
 * Specs are immutable and most runs begin with the same ones in the same order, so that mostly
 * nothing is hashed at all.
 */
const links = new WeakMap<ToolSpec, Link>();

/** The hashes of whole lists, which runs share. */
const chains = new WeakMap<readonly ToolSpec[], readonly string[]>();

/** The hash of the tools up to and including one, after others that hash to `after`. */
interface Link {
  readonly after: string;
  readonly hash: string;
}

function hashOf(spec: ToolSpec, after: string): string {
  const known = links.get(spec);
  if (known?.after === after) return known.hash;
  const { id, description, schemaHash } = spec;
  const hash = sha256(JSON.stringify([after, id, description, schemaHash])).slice(0, 16);
  links.set(spec, { after, hash });
  return hash;
}
