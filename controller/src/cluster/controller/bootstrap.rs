//! `limpet controller bootstrap`.

use std::path::Path;

use serde_json::Value;

use crate::cluster::cli::BootstrapArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output, write_file};
use limpet_outputs::envoy::{BootstrapOptions, BootstrapTls, OverloadLimits, bootstrap, bootstrap_secrets};
use limpet_outputs::json;

pub(super) fn run(args: &BootstrapArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let tls = match (&args.ca, &args.certificate, &args.key) {
        (Some(ca), Some(certificate), Some(key)) => Some(BootstrapTls {
            trusted_ca: ca.clone(),
            certificate_chain: certificate.clone(),
            private_key: key.clone(),
            server_name: args.server_name.clone(),
            folder: args.write.clone(),
        }),
        _ => None,
    };
    if args.metrics_port.is_some() && args.admin_port == 0 {
        return Err(CommandFailure(
            "--metrics-port: expected an --admin-port that is known, found 0".to_owned(),
        ));
    }
    let (controller_host, controller_port) = args.xds.clone();
    let options = BootstrapOptions {
        gateway: args.gateway.clone(),
        node_id: args.node_id.clone(),
        controller_host,
        controller_port,
        tls,
        admin_port: args.admin_port,
        ready: (args.ready_address, args.ready_port).into(),
        metrics: args.metrics_port.map(|port| (args.ready_address, port).into()),
        limits: OverloadLimits {
            heap: u64::from(args.max_heap) << 20,
            connections: args.max_connections,
        },
    };
    let value = json::typed(&bootstrap(&options)).map_err(|error| CommandFailure(error.to_string()))?;
    if let Some(folder) = &args.write {
        let folder = Path::new(folder);
        for (file, response) in bootstrap_secrets(&options) {
            write(&folder.join(file), &json::typed(&response))?;
        }
        write(&folder.join("envoy.yaml"), &Ok(value))?;
        return Ok(CommandVerdict::Good);
    }
    match form {
        Output::Document(format) => output::print_document(format, &value)?,
        Output::Text { .. } => output::print_exactly(&output::yaml(&value)?)?,
    }
    Ok(CommandVerdict::Good)
}

fn write(file: &Path, value: &Result<Value, json::JsonError>) -> Result<(), CommandFailure> {
    let value = value.as_ref().map_err(|error| CommandFailure(error.to_string()))?;
    let text = output::yaml(value)?;
    // It holds paths of keys, and no keys.
    write_file(file, &text, false)
}
