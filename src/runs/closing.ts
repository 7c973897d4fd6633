import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { farewell } from '@toolloop/core';
import { ReplaySubject, type Observable } from 'rxjs';

/** Tells those who only watch that the desk closes: they come back to another process, and miss nothing. */
@Injectable()
export class Closing implements OnModuleDestroy {
  private readonly told = new ReplaySubject<void>(1);
  readonly closed$: Observable<void> = this.told;

  async onModuleDestroy(): Promise<void> {
    const isWatched = this.told.observed;
    this.told.next();
    this.told.complete();
    if (isWatched) await farewell();
  }
}
