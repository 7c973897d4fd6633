import { Readable } from 'node:stream';
import { Controller, ForbiddenException, Get, StreamableFile, UseGuards } from '@nestjs/common';
import { AuditTrail, type SignedAuditHead } from '@toolloop/core';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import type { User } from '../identity/user.js';

/** What was decided and done for the user's own tenant, for `npm run audit:verify`. Managers alone look at it: it names everybody. */
@Controller('audit')
@UseGuards(BearerGuard)
export class AuditController {
  constructor(private readonly trail: AuditTrail) {}

  /** JSON Lines. */
  @Get()
  lines(@CurrentUser() user: User): StreamableFile {
    assertManager(user);
    return new StreamableFile(Readable.from(this.trail.exportLines(user.tenantId)), { type: 'application/jsonl' });
  }

  /** Where the chain stands, signed. Asked for before the lines, since the chain grows. */
  @Get('head')
  head(@CurrentUser() user: User): Promise<SignedAuditHead> {
    assertManager(user);
    return this.trail.exportHead(user.tenantId);
  }
}

function assertManager({ role }: User): void {
  if (role !== 'manager') throw new ForbiddenException('The audit is for managers.');
}
