import { Module } from '@nestjs/common';
import { Notifier } from '@toolloop/core';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';

/** Tells people what waits for them, if the settings say where. */
async function notifierOf({ webhook }: Settings): Promise<Notifier | undefined> {
  if (!webhook) return undefined;
  const { WebhookNotifier } = await import('@toolloop/toolbox'); // a desk without one starts without the tools beside it
  return new WebhookNotifier(webhook);
}

@Module({
  imports: [SettingsModule],
  providers: [{ provide: Notifier, inject: [SETTINGS], useFactory: notifierOf }],
})
export class NoticesModule {}
