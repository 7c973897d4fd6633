import { Module } from '@nestjs/common';
import { Notifier } from '@toolloop/core';
import { IdentityModule } from '../identity/identity.module.js';
import { SETTINGS, SettingsModule, type Settings } from '../settings.js';
import { ApprovalsController } from './approvals.controller.js';

/** Tells people what waits for them, if the settings say where. */
async function notifierOf({ webhook }: Settings): Promise<Notifier | undefined> {
  if (!webhook) return undefined;
  const { WebhookNotifier } = await import('@toolloop/toolbox'); // a desk without one starts without the tools beside it
  return new WebhookNotifier(webhook);
}

@Module({
  imports: [IdentityModule, SettingsModule],
  controllers: [ApprovalsController],
  providers: [{ provide: Notifier, inject: [SETTINGS], useFactory: notifierOf }],
})
export class ApprovalsModule {}
