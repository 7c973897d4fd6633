import { Readable } from 'node:stream';
import { NotFoundException, StreamableFile } from '@nestjs/common';
import { AuditTrail } from '@toolloop/core/audit';
import { Operators } from '@toolloop/core/internal';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/** The audit of the operator's own tenant, for `toolloop audit verify`. It names every actor. */
@CallerController()
export class AuditController {
  constructor(
    private readonly operators: Operators,
    private readonly trail?: AuditTrail,
  ) {}

  /** Streams the audit as JSON Lines, all of it or the entries from a sequence on. */
  @Route('GET /audit')
  async lines({ from }: Asks<'GET /audit'>, @CurrentCaller() caller: Caller) {
    const trail = await this.openedBy(caller);
    return new StreamableFile(Readable.from(trail.exportLines(caller.tenant, from)), {
      type: 'application/jsonl',
    });
  }

  /**
   * Answers with the signed head of the chain. Ask for it before the lines, since the chain grows.
   */
  @Route('GET /audit/head')
  async head(@CurrentCaller() caller: Caller) {
    const trail = await this.openedBy(caller);
    return trail.exportHead(caller.tenant);
  }

  private async openedBy(caller: Caller): Promise<AuditTrail> {
    await this.operators.use(caller, 'audit');
    if (this.trail) return this.trail;
    throw new NotFoundException({ code: 'no_audit', message: 'This application keeps no audit.' });
  }
}
