import { randomUUID } from 'node:crypto';
import { Injectable, Logger, Optional } from '@nestjs/common';
import { ConfigurationError, StorageUnavailableError } from '@toolloop/protocol';
import { type ApprovalAnswer, type ApprovalRecord, ApprovalWitness, type RefusedDecision } from '../contracts/approval.js';
import {
  AuditError,
  type AuditEvent,
  type AuditEvidence,
  type AuditStore,
  type AuditSubject,
  type SignedAuditHead,
} from '../contracts/audit.js';
import { genesisOf, isAuthentic, sealed, shownArguments, signedHead, toAuditLine } from './audit-entry.js';
import { auditFindings, AuditKeyring, type AuditOptions } from './audit-options.js';

/** A call's arguments as they are handed to the audit. */
export interface AuditedArguments {
  /** Canonical JSON, or what the model sent where the call was refused before that was read. */
  readonly text: string;
  /** Names of those that may not be kept. Absent where the text is not canonical JSON: then only its hash is. */
  readonly hidden?: readonly string[];
}

/** What is to be recorded. */
export interface AuditDraft {
  readonly tenant: string;
  readonly subject: AuditSubject;
  readonly event: AuditEvent;
  readonly arguments?: AuditedArguments;
  /** The text of a result, of which bytes and hash are kept. */
  readonly result?: string;
}

/** The time a store has for an entry. */
const LONGEST_APPEND_MS = 10_000;
const MOST_OF_A_NAME = 64;
const PAGE = 500;
const NOT_OURS =
  'was not signed with a key that is configured here, or was changed since: the chain cannot be checked beyond it. Configure the key it was signed with, beside the new one where the key was changed.';
const logger = new Logger('Audit');

/** Records what was decided and done, in a chain per tenant. The caller awaits it before it goes on. */
export class AuditTrail {
  private readonly keyring: AuditKeyring;
  private readonly keepsArguments: boolean;
  private readonly turns = new TenantTurns();
  /** Tenants whose chain was looked at. */
  private readonly known = new Set<string>();

  /** Throws `ConfigurationError` for options that are wrong. */
  constructor(
    private readonly store: AuditStore,
    options: AuditOptions,
  ) {
    const findings = auditFindings(options, 'audit');
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.keyring = new AuditKeyring(options.key);
    this.keepsArguments = options.arguments === 'redacted';
  }

  /**
   * Resolves once the entry is kept. Rejects with `AuditError` when it is not, or not within ten seconds, and with `StorageUnavailableError` where it may be
   * kept a little later, though a slow store may still keep it: then what it is about must not happen.
   */
  async record(draft: AuditDraft): Promise<void> {
    const { tenant } = draft;
    const at = new Date().toISOString();
    try {
      const content = { entryId: randomUUID(), ...this.contentOf(draft) };
      const build = (head = genesisOf(tenant)) => sealed(content, at, head, this.keyring);
      await this.turns.take(tenant, () => inTime(this.lookBack(tenant).then(() => this.store.append(tenant, build))));
    } catch (cause) {
      const unavailable = StorageUnavailableError.in(cause);
      if (unavailable) throw unavailable;
      const { kind } = draft.event;
      throw new AuditError(`The audit could not keep an entry (${kind}, run ${draft.subject.runId}).`, { cause });
    }
  }

  /** Where the tenant's chain stands, signed. Kept elsewhere, it shows later that entries were cut from the end. */
  async exportHead(tenant: string): Promise<SignedAuditHead> {
    return signedHead((await this.store.head(tenant)) ?? genesisOf(tenant), new Date().toISOString(), this.keyring);
  }

  /** The tenant's whole chain as JSON Lines, each with its line break. */
  async *exportLines(tenant: string): AsyncGenerator<string> {
    for (let from = 1; ;) {
      const entries = await this.store.read(tenant, { from, limit: PAGE });
      for (const entry of entries) yield toAuditLine(entry);
      if (entries.length === 0) return;
      from += entries.length;
    }
  }

  /** Says once for each tenant that the chain so far was signed with another key: nobody could check it whole, and that should not be found out in need. */
  private async lookBack(tenant: string): Promise<void> {
    if (this.known.has(tenant)) return;
    const head = await this.store.head(tenant);
    const [last] = head ? await this.store.read(tenant, { from: head.sequence, limit: 1 }) : [];
    this.known.add(tenant);
    if (last && !isAuthentic(last, this.keyring)) logger.warn(`The last entry of the audit of tenant "${tenant}" ${NOT_OURS}`);
  }

  private contentOf({ tenant, subject, event, arguments: args, result }: AuditDraft): object {
    const { calledId } = subject;
    return {
      ...subject,
      ...(calledId !== undefined && { calledId: calledId.slice(0, MOST_OF_A_NAME) }),
      ...event,
      ...(args && this.argumentEvidence(tenant, args)),
      ...(result !== undefined && this.resultEvidence(tenant, result)),
    };
  }

  private argumentEvidence(tenant: string, { text, hidden }: AuditedArguments): AuditEvidence {
    const argsHash = this.keyring.sign(`arguments:${JSON.stringify(tenant)}${text}`);
    return this.keepsArguments && hidden ? { argsHash, args: shownArguments(text, hidden) } : { argsHash };
  }

  private resultEvidence(tenant: string, text: string): AuditEvidence {
    return { resultBytes: Buffer.byteLength(text), resultHash: this.keyring.sign(`result:${JSON.stringify(tenant)}${text}`) };
  }
}

/** A store that never answers must not hold up a tenant for ever. */
function inTime(kept: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new Error(`The store took longer than ${LONGEST_APPEND_MS} ms.`));
    const timer = setTimeout(giveUp, LONGEST_APPEND_MS);
    void kept.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}

/** Lets one task of a tenant run at a time, in the order they came; tenants do not wait for each other. */
export class TenantTurns {
  private readonly last = new Map<string, Promise<void>>();

  async take(tenant: string, task: () => Promise<void>): Promise<void> {
    const before = this.last.get(tenant);
    const mine = before ? before.then(task, task) : task();
    this.last.set(tenant, mine);
    try {
      await mine;
    } finally {
      if (this.last.get(tenant) === mine) this.last.delete(tenant);
    }
  }
}

/** Records every decision on an approval, and every attempt at one, where the application keeps an audit. */
@Injectable()
export class ApprovalAudit extends ApprovalWitness {
  constructor(@Optional() private readonly trail?: AuditTrail) {
    super();
  }

  override async decided(record: ApprovalRecord, answer: ApprovalAnswer): Promise<void> {
    const { decision, decidedBy, decidedAt, reason, args } = answer;
    const said = { decision, decidedBy, decidedAt, ...(reason !== undefined && { reason }), edited: args !== undefined };
    await this.record(record, { kind: 'approval-decision', approvalId: record.request.approvalId, ...said });
  }

  override async refused(record: ApprovalRecord, attempt: RefusedDecision): Promise<void> {
    await this.record(record, { kind: 'approval-refusal', approvalId: record.request.approvalId, ...attempt });
  }

  private async record({ binding, request }: ApprovalRecord, event: AuditEvent): Promise<void> {
    const { tenant, requesterId, runId, subRunId, toolCallId, declaredId, instanceId } = binding;
    const subject = {
      ...(requesterId !== undefined && { actorId: requesterId }),
      ...(subRunId === undefined ? { runId } : { runId: subRunId, rootRunId: runId }),
      toolCallId,
      step: request.step,
      declaredId,
      ...(instanceId !== undefined && { instanceId }),
    };
    await this.trail?.record({ tenant, subject, event });
  }
}
