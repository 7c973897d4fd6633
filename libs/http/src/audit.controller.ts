import { Readable } from 'node:stream';
import { Get, NotFoundException, Query, StreamableFile } from '@nestjs/common';
import { AuditTrail } from '@toolloop/core/audit';
import type { SignedAuditHead } from '@toolloop/core/audit';
import { Operators } from '@toolloop/core/internal';
import { CallerController, CurrentCaller, STRICT } from './caller.js';
import type { Caller } from './http-options.js';
import { AuditFrom } from './requests.dto.js';

/** The audit of the operator's own tenant, for `toolloop audit verify`. It names every actor. */
@CallerController('audit')
export class AuditController {
  constructor(
    private readonly operators: Operators,
    private readonly trail?: AuditTrail,
  ) {}

  /** Streams the audit as JSON Lines, all of it or the entries from a sequence on. */
  @Get()
  async lines(
    @Query(STRICT) { from }: AuditFrom,
    @CurrentCaller() caller: Caller,
  ): Promise<StreamableFile> {
    const trail = await this.openedBy(caller);
    return new StreamableFile(Readable.from(trail.exportLines(caller.tenant, from)), {
      type: 'application/jsonl',
    });
  }

  /**
   * Answers with the signed head of the chain. Ask for it before the lines, since the chain grows.
   */
  @Get('head')
  async head(@CurrentCaller() caller: Caller): Promise<SignedAuditHead> {
    const trail = await this.openedBy(caller);
    return trail.exportHead(caller.tenant);
  }

  private async openedBy(caller: Caller): Promise<AuditTrail> {
    await this.operators.use(caller, 'audit');
    if (this.trail) return this.trail;
    throw new NotFoundException({ code: 'no_audit', message: 'This application keeps no audit.' });
  }
}
