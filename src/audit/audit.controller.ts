import { Readable } from 'node:stream';
import { Controller, ForbiddenException, Get, StreamableFile, UseGuards } from '@nestjs/common';
import { AuditTrail, type SignedAuditHead } from '@toolloop/core/audit';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import type { User } from '../identity/user.js';

/** The audit of the user's own tenant, for `npm run audit:verify`. Only managers may read it: it names every user. */
@Controller('audit')
@UseGuards(BearerGuard)
export class AuditController {
  constructor(private readonly trail: AuditTrail) {}

  /** Streams the audit as JSON Lines. */
  @Get()
  lines(@CurrentUser() user: User): StreamableFile {
    assertManager(user);
    return new StreamableFile(Readable.from(this.trail.exportLines(user.tenantId)), { type: 'application/jsonl' });
  }

  /** Answers with the signed head of the chain. Ask for it before the lines, since the chain grows. */
  @Get('head')
  head(@CurrentUser() user: User): Promise<SignedAuditHead> {
    assertManager(user);
    return this.trail.exportHead(user.tenantId);
  }
}

function assertManager({ role }: User): void {
  if (role !== 'manager') throw new ForbiddenException('The audit is for managers.');
}
