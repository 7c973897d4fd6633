import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { ReplaySubject, type Observable } from 'rxjs';

/** In which the ends of streams get out, before the connections are closed. */
const FAREWELL_MS = 100;

/** Tells those who only watch that the desk closes: they come back to another process, and miss nothing. */
@Injectable()
export class Closing implements OnModuleDestroy {
  private readonly told = new ReplaySubject<void>(1);
  readonly closed$: Observable<void> = this.told;

  async onModuleDestroy(): Promise<void> {
    const isWatched = this.told.observed;
    this.told.next();
    this.told.complete();
    if (isWatched) await wait(FAREWELL_MS);
  }
}
