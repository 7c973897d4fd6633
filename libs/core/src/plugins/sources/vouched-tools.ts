import { isDeepStrictEqual } from 'node:util';
import {
  isRecord,
  TOOL_EFFECTS,
  type ToolEffect,
  type ToolOrigin,
  type ToolSpec,
} from '@toolloop/protocol';
import type { Toolset } from '../../catalog/toolset.js';
import type { Policy, PolicyEngine, VouchedTool } from '../../contracts/policy.js';
import { type Tool } from '../../contracts/tool.js';
import { Logger } from '../../findings/logger.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';

/**
 * Admits the tools of untrusted sources. Such a tool cannot vouch for itself: it counts as an
 * external effect that can carry data out, reads private data and returns untrusted content, except
 * as far as the application's policy vouches for it by its id.
 */
export class VouchedTools {
  private readonly logger = new Logger('ToolPolicy');
  private readonly taken = new WeakMap<Tool, TakenTool>();
  private readonly semantics = new WeakMap<ToolSpec, KnownSemantics>();
  private readonly warned = new Set<string>();
  /** The declarations that the application has pinned elsewhere than in a policy. */
  private readonly pinned = new WeakSet<ToolSpec>();

  constructor(private readonly engine: Pick<PolicyEngine, 'vouchedFor' | 'revision'>) {}

  /**
   * Admits a tool as the policy in force vouches for it. Returns the same object for the same tool
   * until that changes, and trusted tools as they are.
   */
  take(tool: Tool): Tool {
    if (tool.origin.trusted) return tool;
    const known = this.taken.get(tool);
    if (known && known.revision === this.engine.revision?.()) return known.taken;
    const semantics = this.semanticsOf(tool);
    const taken = known?.semantics === semantics ? known.taken : { ...tool, ...semantics };
    const one = { revision: this.engine.revision?.(), semantics, taken };
    this.taken.set(tool, one);
    this.taken.set(taken, one);
    return taken;
  }

  /**
   * Takes a declaration for pinned from now on, under whatever policy. It is the frozen copy that
   * the catalog has.
   */
  pin(spec: ToolSpec): void {
    this.pinned.add(spec);
  }

  /** Returns the hash of an untrusted tool if the policy pins another one for its id. */
  hashOtherwisePinned({ spec, origin }: Tool): string | undefined {
    const pin = origin.trusted ? undefined : this.engine.vouchedFor?.(spec.declaredId)?.schemaHash;
    const schemaHash = pin === undefined ? undefined : hashSpec(spec);
    return schemaHash === pin ? undefined : schemaHash;
  }

  /**
   * Returns a tool that was admitted before as the policy in force vouches for it now, and any
   * other as it is.
   */
  relabel(tool: Tool): Tool {
    return this.taken.has(tool) ? this.take(tool) : tool;
  }

  private semanticsOf(tool: Tool): Semantics {
    const revision = this.engine.revision?.();
    const known = this.semantics.get(tool.spec);
    if (known?.semantics.origin.source === tool.origin.source && known.revision === revision)
      return known.semantics;
    const compiled = this.compile(tool);
    const semantics =
      known && isDeepStrictEqual(known.semantics, compiled) ? known.semantics : compiled;
    this.semantics.set(tool.spec, { revision, semantics });
    this.semantics.set(semantics.spec, { revision, semantics });
    return semantics;
  }

  /** Labels a tool by the policy. A sub-run reads more than its description, so no hash pins it. */
  private compile({ spec, origin: { source }, subRun }: Tool): Semantics {
    const schemaHash = hashSpec(spec);
    const {
      effect = 'external_side_effect',
      reads = 'private',
      egress = true,
      schemaHash: pin,
    } = this.wordFor(spec, schemaHash);
    const isPinned = this.pinned.has(spec);
    const origin: ToolOrigin = {
      source,
      trusted: false,
      ...((isPinned || pin !== undefined) && !subRun && { pinned: true }),
    };
    const labelled = Object.freeze<ToolSpec>({
      ...spec,
      effect,
      labels: { returns: 'untrusted', reads, egress },
      schemaHash,
    });
    if (isPinned) this.pin(labelled);
    return { spec: labelled, origin };
  }

  private wordFor({ declaredId }: ToolSpec, schemaHash: string): VouchedTool {
    const vouched = this.engine.vouchedFor?.(declaredId);
    if (!vouched || vouched.schemaHash === undefined || vouched.schemaHash === schemaHash)
      return vouched ?? {};
    if (!this.warned.has(declaredId))
      this.logger.warn(
        `The policy vouches for ${declaredId} with another description or other schemas, so it is not vouched for: their hash is ${schemaHash} now.`,
      );
    this.warned.add(declaredId);
    return {};
  }
}

/** A tool as the policy of some time labels it. */
type Semantics = Pick<Tool, 'spec' | 'origin'>;

/** The labels of a spec, and the revision of the policy that gave them. */
interface KnownSemantics {
  readonly revision: number | undefined;
  readonly semantics: Semantics;
}

interface TakenTool extends KnownSemantics {
  readonly taken: Tool;
}

/** Tells whether a tool's description comes from outside and is not pinned by the application. */
export function isUnpinned({ origin }: Pick<Tool, 'origin'>): boolean {
  return !origin.trusted && origin.pinned !== true;
}

/**
 * The toolsets of which it is known, since they never change and are offered again in each step.
 */
const unpinned = new WeakMap<Toolset, boolean>();

/** Tells whether a toolset shows a tool whose description comes from outside and is not pinned. */
export function showsUnpinned(toolset: Toolset): boolean {
  const isKnown = unpinned.get(toolset) ?? toolset.shown.some(isUnpinned);
  unpinned.set(toolset, isKnown);
  return isKnown;
}

/**
 * Returns the strictest of the policies' vouchers for a tool; policies in shadow vouch for nothing.
 */
export function vouchedBy(
  policies: readonly Policy[],
  declaredId: string,
): VouchedTool | undefined {
  const vouchers = policies.flatMap((policy) => readVoucher(policy, declaredId) ?? []);
  const [first, ...others] = vouchers;
  return first && others.reduce(stricter, first);
}

/**
 * Reads a policy's voucher for a tool. The policy may still be wrong: it is checked once the tools
 * are known.
 */
function readVoucher(policy: Policy, declaredId: string): VouchedTool | undefined {
  const given: unknown = policy;
  const isHeard = isRecord(given) && policy.shadow !== true && isRecord(given['vouched']);
  const { vouched = {} } = isHeard ? policy : {};
  return Object.hasOwn(vouched, declaredId) && isRecord(vouched[declaredId])
    ? vouched[declaredId]
    : undefined;
}

/** Joins two vouchers. Two different pins become an empty one, which no hash matches. */
function stricter(one: VouchedTool, other: VouchedTool): VouchedTool {
  const pins = [one.schemaHash, other.schemaHash].filter((pin) => pin !== undefined);
  const [pin, second = pin] = pins;
  return {
    effect: strongest(one.effect, other.effect),
    reads: one.reads === 'public' && other.reads === 'public' ? 'public' : 'private',
    egress: one.egress !== false || other.egress !== false,
    ...(pin !== undefined && { schemaHash: pin === second ? pin : '' }),
  };
}

function strongest(...effects: readonly (ToolEffect | undefined)[]): ToolEffect {
  return (
    TOOL_EFFECTS.findLast((effect) =>
      effects.some((one = 'external_side_effect') => one === effect),
    ) ?? 'external_side_effect'
  );
}

/** Hashes a tool like those of the application; a hash from its source is ignored. */
function hashSpec({ description, inputSchema, outputSchema }: ToolSpec): string {
  return sha256(
    canonicalDeclaration({ description, inputSchema, ...(outputSchema && { outputSchema }) }),
  );
}
