#!/bin/sh
# Fetches histories of published JSON Schemas from npm, for
# `cargo run -p schema-compat --example compare_schemas -- DIR/*`.
# Usage: tests/real-schemas.sh DIR
set -eu
dir=${1:?a directory to fill}

take() {
    name=$1
    shift
    for version; do
        to=$dir/$(echo "$name" | tr '@/' '__')/$version
        mkdir -p "$to"
        archive=$(npm pack --silent --pack-destination "$dir" "$name@$version")
        tar -xzf "$dir/$archive" -C "$to" --strip-components=1 --wildcards '*.json'
        rm "$dir/$archive"
    done
}

# Options of code generators and builders: what tools take as input, draft 7.
take @schematics/angular 12.0.0 13.0.0 14.0.0 15.0.0 16.0.0 17.0.0 18.0.0 19.0.0 20.0.0
take @angular-devkit/build-angular 12.0.0 13.0.0 14.0.0 15.0.0 16.0.0 17.0.0 18.0.0 19.0.0 20.0.0
take @nx/react 16.0.0 17.0.0 18.0.0 19.0.0 20.0.0 21.0.0
# Events with many variants.
take @octokit/webhooks-schemas 7.5.0 7.6.1
# A recursive specification; one package has all versions.
take @asyncapi/specs 6.8.0
from="$dir/_asyncapi_specs/6.8.0/schemas"
for version in 2.0.0 2.1.0 2.2.0 2.3.0 2.4.0 2.5.0 2.6.0; do
    mkdir -p "$dir/asyncapi/$version"
    cp "$from/$version-without-\$id.json" "$dir/asyncapi/$version/schema.json"
done
rm -r "$dir/_asyncapi_specs"
